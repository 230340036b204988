DELETE FROM claims WHERE name = ?1 AND state = 0 AND id = ?2 AND lease_end > ?3
