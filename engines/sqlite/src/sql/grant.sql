UPDATE claims SET state = 0, token = ?3, since = ?4 WHERE name = ?1 AND state = 1 AND id = ?2
