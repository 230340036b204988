-- The lock's row, before anybody searches for it. Its numbers begin with the clock, in microseconds: they go on growing
-- when the row was removed because nobody had used it for long.
INSERT IGNORE INTO {locks} (name, newest, used)
VALUES ({name}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), UTC_DATE());
