-- From the first name that can have the prefix to the last.
SELECT name, id, owner, weight, capacity, -turn, arrived, token,
       TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_end), TIMESTAMPDIFF(MICROSECOND, since, UTC_TIMESTAMP(6)),
       note, evicted, state
FROM {claims}
WHERE name >= {prefix} AND LEFT(name, {length}) = {prefix} AND state < 2 AND lease_end > UTC_TIMESTAMP(6)
ORDER BY name, state, turn, arrived, token;
