UPDATE claims SET evicted = 1 WHERE name = ?1 AND state = 0 AND id = ?2
