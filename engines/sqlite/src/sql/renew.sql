-- Only what is in line, has not expired, was not ended by an operator and is kept by a client.
UPDATE claims SET lease_end = ?4, client = ?5
WHERE name = ?1 AND state IN (0, 1) AND id = ?2 AND lease_end > ?3 AND evicted = 0 AND client IS NOT NULL
