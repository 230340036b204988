-- Names that nobody has locked for a month. Reads the whole table without locking anything: for upkeep only.
SELECT name FROM {locks} WHERE used < UTC_DATE() - INTERVAL 30 DAY
AND (id IS NULL OR lease_end <= UTC_TIMESTAMP(6)) LIMIT 1000;
