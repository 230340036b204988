-- From now on the lease alone decides.
UPDATE claims SET lease_end = ?4, client = NULL
WHERE name = ?1 AND state IN (0, 1) AND id = ?2 AND lease_end > ?3 AND evicted = 0
