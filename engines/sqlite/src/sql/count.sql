UPDATE claims SET token = ?1 WHERE name = '' AND state = 0 AND id = x''
