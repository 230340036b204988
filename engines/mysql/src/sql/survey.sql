-- What was given back and may not be written down yet. Looked at first, and not in the statements below: those can take
-- as long as their reader likes, and whoever gives a lock back would wait for it.
SELECT id FROM {released} WHERE until > UTC_TIMESTAMP(6) LIMIT {most};
-- From the first name that can have the prefix to the last: who stands in a lock's row, and who stands in a line.
SELECT name, id, owner, weight, capacity, -turn, 0 AS arrived, newest AS token,
       TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_end), TIMESTAMPDIFF(MICROSECOND, since, UTC_TIMESTAMP(6)),
       note, evicted
FROM {locks}
WHERE name >= {prefix} AND LEFT(name, {length}) = {prefix} AND id IS NOT NULL AND lease_end > UTC_TIMESTAMP(6);
SELECT name, id, owner, weight, capacity, -turn, arrived, token,
       TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_end), TIMESTAMPDIFF(MICROSECOND, since, UTC_TIMESTAMP(6)),
       note, evicted
FROM {claims}
WHERE name >= {prefix} AND LEFT(name, {length}) = {prefix} AND state < 2 AND lease_end > UTC_TIMESTAMP(6)
ORDER BY name, state, turn, arrived, token;
