DELETE FROM claims WHERE name = ?1 AND state = 0 AND lease_end <= ?2
