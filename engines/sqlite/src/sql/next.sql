-- The first in line.
SELECT id, weight, capacity, priority, lease_end, client
FROM claims INDEXED BY waiting WHERE name = ?1 AND state = 1
ORDER BY priority DESC, arrived LIMIT 1
