-- Whoever joins a line has its row and marks it as used, so a line that begins meanwhile keeps its row.
DELETE FROM {locks} WHERE name IN ({names}) AND used < UTC_DATE() - INTERVAL 30 DAY
AND NOT EXISTS (SELECT 1 FROM {claims} WHERE {claims}.name = {locks}.name);
