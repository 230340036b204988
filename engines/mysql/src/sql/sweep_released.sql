-- What clients left there that ended before they could write it down: no lease is longer.
DELETE LOW_PRIORITY FROM {released} WHERE until < UTC_TIMESTAMP(6) - INTERVAL 1 DAY;
