-- The claim that stands in the lock's row, if one does.
SELECT id, weight, capacity, lease_end > UTC_TIMESTAMP(6) AND id NOT IN (SELECT id FROM {released})
FROM {locks} WHERE name = {name} AND id IS NOT NULL;
