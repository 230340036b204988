-- What clients left there that ended before they could write it down: no lease is longer.
DELETE FROM {released} WHERE until < UTC_TIMESTAMP(6) - INTERVAL 1 DAY;
