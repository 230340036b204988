-- What clients left there that ended before they could write it down. Not many at a time: the table is locked as a whole.
DELETE LOW_PRIORITY FROM {released} WHERE until < UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE LIMIT 1000;
