-- Only what is in line, has not expired, was not ended by an operator and does not linger already.
UPDATE {claims} FORCE INDEX (PRIMARY) SET lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, lingers = {lingers}
WHERE id IN ({ids}) AND state < 2 AND lease_end > UTC_TIMESTAMP(6) AND NOT evicted AND NOT lingers;
