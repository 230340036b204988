-- Holders first, in the order of their tokens, then waiters in the order of their turn.
SELECT name, encode(substring(id FROM 1 FOR 6), 'hex') AS public, owner, weight, capacity, priority, token,
       (extract(epoch FROM clock_timestamp() - since) * 1000000)::bigint AS since_micros,
       (extract(epoch FROM lease_end - clock_timestamp()) * 1000000)::bigint AS left_micros, note, evicted
FROM lockhouse_claims
WHERE name >= $1 AND starts_with(name, $1) AND state IN (0, 1) AND lease_end > clock_timestamp()
ORDER BY name, state, token, priority DESC, arrived
