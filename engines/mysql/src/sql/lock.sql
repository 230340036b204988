-- Begins to change a line. As long as it is crowded, nobody but who has its gate gives out numbers or takes its lock.
START TRANSACTION;
SELECT 1 FROM {gates} WHERE name = {name} FOR UPDATE;
SELECT newest, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), crowded FROM {locks} WHERE name = {name};
