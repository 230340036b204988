-- Who stands in a lock's row, and who stands in a line: holders first, in the order of their tokens, then waiters in the
-- order of their turn.
SELECT name, encode(substring(id FROM 1 FOR 6), 'hex') AS public, owner, weight, capacity, priority, token,
       (extract(epoch FROM clock_timestamp() - since) * 1000000)::bigint AS since_micros,
       (extract(epoch FROM lease_end - clock_timestamp()) * 1000000)::bigint AS left_micros, note, evicted
FROM (
    SELECT name, 0::smallint AS state, id, weight, capacity, priority, 0::bigint AS arrived, token, lease_end, since,
           evicted, owner, note
    FROM lockhouse_locks WHERE id IS NOT NULL
    UNION ALL
    SELECT name, state, id, weight, capacity, priority, arrived, token, lease_end, since, evicted, owner, note
    FROM lockhouse_claims WHERE state IN (0, 1)
) AS claim
WHERE name >= $1 AND starts_with(name, $1) AND lease_end > clock_timestamp()
ORDER BY name, state, token, priority DESC, arrived
