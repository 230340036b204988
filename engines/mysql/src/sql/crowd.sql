-- Moves the claim that stands in the lock's row into the line: others come. It is done when this is: nobody waits for
-- whoever asked for it. The row can be made, and taken, while this runs: what the first statement did not find is not
-- marked as crowded, and left alone by the others.
START TRANSACTION;
UPDATE {locks} SET crowded = TRUE, used = UTC_DATE() WHERE name = {name} AND (NOT crowded OR used < UTC_DATE());
INSERT INTO {claims} (id, name, state, turn, arrived, weight, capacity, token, lease_end, since, evicted, lingers, owner, note)
SELECT id, name, 0, turn, 0, weight, capacity, newest, lease_end, since, evicted, lingers, owner, note
FROM {locks} WHERE name = {name} AND crowded AND id IS NOT NULL
ON DUPLICATE KEY UPDATE state = 0, token = {locks}.newest, lease_end = {locks}.lease_end;
UPDATE {locks} SET id = NULL WHERE name = {name} AND crowded AND id IS NOT NULL;
COMMIT;
