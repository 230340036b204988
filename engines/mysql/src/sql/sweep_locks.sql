-- Whoever takes a lock or looks at its line marks the lock's row as used before that, so what begins meanwhile keeps its
-- row. A gate is made again.
DELETE FROM {locks} WHERE name IN ({names}) AND used < UTC_DATE() - INTERVAL 30 DAY
AND (id IS NULL OR lease_end <= UTC_TIMESTAMP(6))
AND NOT EXISTS (SELECT 1 FROM {claims} WHERE {claims}.name = {locks}.name);
DELETE FROM {gates} WHERE name IN ({names}) AND NOT EXISTS (SELECT 1 FROM {locks} WHERE {locks}.name = {gates}.name);
