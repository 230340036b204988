-- A claim was sent again.
UPDATE claims SET weight = ?4, lease_end = ?5, client = ?6 WHERE name = ?1 AND state = ?2 AND id = ?3
