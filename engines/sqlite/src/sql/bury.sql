-- The client is dead: what it holds or waits for under this name ends with it.
DELETE FROM claims WHERE name = ?1 AND state IN (0, 1, 2) AND client = ?2
