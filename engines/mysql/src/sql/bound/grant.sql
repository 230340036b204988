-- Whoever has the lock counts its token and writes down that it holds, in one commit and before anybody is told. Nothing
-- happens without the lock. Who else is written down as the only holder is not: its connection let go, or ended.
START TRANSACTION;
UPDATE {locks} SET newest = LAST_INSERT_ID(GREATEST(newest + 1, {floor})), used = UTC_DATE() WHERE name = {name} AND {got};
DELETE FROM {claims} WHERE name = {name} AND state = 0 AND {alone} AND {got};
INSERT INTO {claims} (id, name, state, turn, arrived, weight, capacity, token, connection,
                      lease_end, since, evicted, lingers, owner, note)
SELECT {id}, name, 0, 0, 0, {weight}, {capacity}, newest, {connection},
       UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, UTC_TIMESTAMP(6), FALSE, FALSE, {owner}, {note}
FROM {locks} WHERE name = {name} AND {got}
ON DUPLICATE KEY UPDATE evicted = evicted OR state = 2, arrived = 0, state = 0, token = newest, connection = {connection},
       lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, since = UTC_TIMESTAMP(6);
COMMIT;
SELECT {got}, LAST_INSERT_ID(), COALESCE((SELECT evicted FROM {claims} WHERE id = {id}), FALSE);
