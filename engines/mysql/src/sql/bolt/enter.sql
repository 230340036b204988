-- Takes a lock that nobody has, as `take` does, and shuts its bolt: both or neither. A row's columns are set from left to
-- right, so its id says whether the bolt could be shut when the others are set. If not, the number that is given is 0.
UPDATE {locks} SET id = IF(GET_LOCK(CONCAT('lockhouse:', LEFT(SHA2({name}, 256), 54)), 0) = 1, {id}, NULL),
    newest = IF(id IS NULL, newest + LAST_INSERT_ID(0), LAST_INSERT_ID(GREATEST(newest + 1, {floor}))),
    used = UTC_DATE(), turn = {turn}, weight = {weight}, capacity = {capacity},
    lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, since = UTC_TIMESTAMP(6), evicted = FALSE,
    lingers = {lingers}, owner = {owner}, note = {note}
WHERE name = {name} AND NOT crowded AND (id IS NULL OR id = {before} OR lease_end <= UTC_TIMESTAMP(6));
