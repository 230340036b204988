-- The claims that people call by these first bytes of their id.
SELECT id, state, client FROM claims
WHERE name = ?1 AND state IN (0, 1) AND id BETWEEN ?2 AND ?3 AND lease_end > ?4
