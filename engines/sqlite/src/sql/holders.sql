SELECT id, token, client, lease_end FROM claims WHERE name = ?1 AND state = 0
