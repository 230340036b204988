DELETE FROM claims WHERE name = ?1 AND state IN (1, 2) AND id = ?2 AND lease_end > ?3
