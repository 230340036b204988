-- Takes a lock that nobody has, as the short way of lockhouse_claim does, and shuts its bolt: both or neither. It waits
-- for no row that somebody has locked.
WITH free AS MATERIALIZED (
    SELECT name FROM lockhouse_locks
    WHERE name = $1 AND NOT crowded AND (id IS NULL OR lease_end <= clock_timestamp()) FOR UPDATE SKIP LOCKED
), shut AS MATERIALIZED (
    SELECT name FROM free WHERE pg_try_advisory_lock(lockhouse_key($1))
)
UPDATE lockhouse_locks AS lock
SET counter = greatest(counter + 1, $7), token = greatest(counter + 1, $7), used = clock_timestamp(), id = $2,
    weight = $3, capacity = $4, priority = $5, lease_end = clock_timestamp() + $6 * interval '1 microsecond',
    since = clock_timestamp(), lingers = $8, evicted = false, channel = $9, owner = $10, note = $11
FROM shut WHERE lock.name = shut.name
RETURNING counter, (extract(epoch FROM since) * 1000000)::bigint
