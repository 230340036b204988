SELECT DISTINCT client FROM claims WHERE name = ?1 AND state = 0 AND client IS NOT NULL
