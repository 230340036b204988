DELETE FROM claims WHERE name = ?1 AND state IN (0, 1, 2) AND id = ?2
