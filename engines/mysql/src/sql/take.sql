-- Takes a lock that nobody has and nobody waits for: one round trip, one commit.
--
-- The first SELECT waits for the lock's row and keeps it to the end. Only the statement after it looks whether anybody
-- is there: at READ COMMITTED each statement sees what was committed before it began, and nobody joins a line without
-- having its row. When somebody is there, or the row was not, nothing is changed: a row that somebody else has made
-- since then is seen, but it is not ours.
START TRANSACTION;
SET @lockhouse_newest = NULL;
SELECT newest INTO @lockhouse_newest FROM {locks} WHERE name = {name} FOR UPDATE;
INSERT INTO {claims} (id, name, state, turn, arrived, weight, capacity, token, lease_end, since, evicted, lingers, owner, note)
SELECT {id}, name, 0, {turn}, 0, {weight}, {capacity}, GREATEST(newest + 1, {floor}),
       UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, UTC_TIMESTAMP(6), FALSE, {lingers}, {owner}, {note}
FROM {locks} WHERE name = {name} AND @lockhouse_newest IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM {claims} WHERE name = {name});
UPDATE {locks} SET newest = GREATEST(newest + 1, {floor}), used = UTC_DATE() WHERE name = {name} AND ROW_COUNT() = 1;
SELECT @lockhouse_newest, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
COMMIT;
