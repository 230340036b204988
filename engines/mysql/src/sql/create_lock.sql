-- The lock's row and its gate, when they were searched for in vain. Its numbers begin with the clock, in microseconds: they
-- go on growing when the row was removed because nobody had used it for long. Should somebody else have removed it, the
-- line is there.
INSERT IGNORE INTO {gates} (name) VALUES ({name});
INSERT IGNORE INTO {locks} (name, newest, used, crowded)
SELECT {name}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), UTC_DATE(),
       EXISTS (SELECT 1 FROM {claims} WHERE name = {name});
