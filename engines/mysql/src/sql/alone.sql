-- The first claim of a line in which nobody is left: it stands in the lock's row.
UPDATE {locks} SET crowded = FALSE,
    id = {id}, turn = {turn}, weight = {weight}, capacity = {capacity},
    lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, since = UTC_TIMESTAMP(6), evicted = FALSE,
    lingers = {lingers}, owner = {owner}, note = {note}
WHERE name = {name} AND crowded;
