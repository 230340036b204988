-- Takes a claim out of its line if it stands in its lock's own row and nobody is just changing that: nothing waits here.
-- As lockhouse_leave it does not wait for the disk. Then it opens the bolt, last, so that it is shut if this fails.
WITH sole AS MATERIALIZED (
    SELECT name FROM lockhouse_locks WHERE name = $1 AND id = $2 FOR UPDATE SKIP LOCKED
), gone AS (
    UPDATE lockhouse_locks SET id = NULL FROM sole, set_config('synchronous_commit', 'off', true)
    WHERE lockhouse_locks.name = sole.name
    RETURNING lease_end > clock_timestamp() AS was_there,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros
)
SELECT was_there, micros, pg_advisory_unlock(lockhouse_key($1)) FROM (VALUES (true)) AS bolt LEFT JOIN gone ON true
