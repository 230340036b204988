-- Names that nobody has locked for a month. Reads the whole table without locking anything: for upkeep only.
SELECT name FROM {locks} WHERE used < UTC_DATE() - INTERVAL 30 DAY LIMIT 1000;
