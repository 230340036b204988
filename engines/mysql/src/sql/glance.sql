-- What a waiter looks at from time to time, without locking anything: itself, how many wait ahead of it, how long the
-- lease of the first of them goes on, and what is held.
SELECT me.state, me.token, me.weight, me.capacity, me.turn, me.arrived,
       (SELECT COUNT(*) FROM {claims} WHERE name = {name} AND state = 1
          AND (turn < me.turn OR (turn = me.turn AND arrived < me.arrived))),
       (SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lease_end) FROM {claims} WHERE name = {name} AND state = 1
        ORDER BY turn, arrived LIMIT 1),
       (SELECT COALESCE(SUM(weight), 0) FROM {claims} WHERE name = {name} AND state = 0 AND lease_end > UTC_TIMESTAMP(6)
          AND id NOT IN (SELECT id FROM {released}))
FROM {claims} me WHERE me.id = {id};
