-- Claims that have been over for a minute: whoever asks for a name looks after it, so these are under names that nobody
-- asks for. Reads the whole table without locking anything: for upkeep only.
SELECT id FROM {claims} WHERE lease_end <= UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE LIMIT 1000;
