-- Only what is in line, has not expired, was not ended by an operator and does not linger already.
UPDATE {claims} FORCE INDEX (PRIMARY) SET lease_end = {now} + INTERVAL {ttl} MICROSECOND, lingers = {lingers}
WHERE id IN ({ids}) AND state < 2 AND lease_end > {now} AND NOT evicted AND NOT lingers;
UPDATE {locks} FORCE INDEX (PRIMARY) SET lease_end = {now} + INTERVAL {ttl} MICROSECOND, lingers = {lingers}
WHERE name IN ({names}) AND id IN ({ids}) AND lease_end > {now} AND NOT evicted AND NOT lingers;
-- Once more for those that moved from their lock's row into the line in between.
UPDATE {claims} FORCE INDEX (PRIMARY) SET lease_end = {now} + INTERVAL {ttl} MICROSECOND, lingers = {lingers}
WHERE id IN ({ids}) AND state < 2 AND lease_end > {now} AND NOT evicted AND NOT lingers;
-- Those that are honoured, and whether they were renewed.
SELECT id, lingers OR (NOT {lingers} AND lease_end >= {now} + INTERVAL {ttl} MICROSECOND) FROM {locks} FORCE INDEX (PRIMARY)
WHERE name IN ({names}) AND id IN ({ids}) AND lease_end > {now} AND NOT evicted
UNION ALL
SELECT id, lingers OR (NOT {lingers} AND lease_end >= {now} + INTERVAL {ttl} MICROSECOND) FROM {claims} FORCE INDEX (PRIMARY)
WHERE id IN ({ids}) AND state < 2 AND lease_end > {now} AND NOT evicted;
