-- Only what is in line, has not expired, was not ended by an operator and does not linger already. A claim only ever moves
-- from its lock's row into the line, so whoever looks there second misses none.
UPDATE {locks} FORCE INDEX (PRIMARY) SET lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, lingers = {lingers}
WHERE name IN ({names}) AND id IN ({ids}) AND lease_end > UTC_TIMESTAMP(6) AND NOT evicted AND NOT lingers;
UPDATE {claims} FORCE INDEX (PRIMARY) SET lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, lingers = {lingers}
WHERE id IN ({ids}) AND state < 2 AND lease_end > UTC_TIMESTAMP(6) AND NOT evicted AND NOT lingers;
