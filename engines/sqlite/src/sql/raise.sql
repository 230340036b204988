UPDATE claims SET token = ?3 WHERE name = ?1 AND state = 0 AND id = ?2
