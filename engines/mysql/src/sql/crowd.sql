-- Moves the claim that stands in the lock's row into the line: others come. It is done when this is: nobody waits for
-- whoever asked for it.
START TRANSACTION;
SELECT 1 FROM {locks} WHERE name = {name} FOR UPDATE;
INSERT INTO {claims} (id, name, state, turn, arrived, weight, capacity, token, lease_end, since, evicted, lingers, owner, note)
SELECT id, name, 0, turn, 0, weight, capacity, newest, lease_end, since, evicted, lingers, owner, note
FROM {locks} WHERE name = {name} AND id IS NOT NULL
ON DUPLICATE KEY UPDATE state = 0, token = {locks}.newest, lease_end = {locks}.lease_end;
UPDATE {locks} SET id = NULL, crowded = TRUE, used = UTC_DATE() WHERE name = {name} AND (NOT crowded OR used < UTC_DATE());
COMMIT;
