UPDATE claims SET state = 2 WHERE name = ?1 AND state = 1 AND id = ?2
