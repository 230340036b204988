-- A claim takes a place among those who wait, or says that it is still there.
START TRANSACTION;
UPDATE {locks} SET newest = newest + 1, used = UTC_DATE() WHERE name = {name};
INSERT INTO {claims} (id, name, state, turn, arrived, weight, capacity, token, connection,
                      lease_end, since, evicted, lingers, owner, note)
SELECT {id}, name, 1, 0, newest, {weight}, {capacity}, NULL, NULL,
       UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, UTC_TIMESTAMP(6), FALSE, FALSE, {owner}, {note}
FROM {locks} WHERE name = {name}
ON DUPLICATE KEY UPDATE arrived = IF(state = 0, newest, arrived), state = GREATEST(state, 1), token = NULL, connection = NULL,
       lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND;
SELECT state = 2 OR evicted FROM {claims} WHERE id = {id};
SELECT COUNT(*) FROM {claims} WHERE name = {name} AND id <> {id} AND state < 2 AND lease_end > UTC_TIMESTAMP(6);
COMMIT;
