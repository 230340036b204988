SELECT version, token, write_id, value FROM cells WHERE name = ?1
