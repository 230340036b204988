-- Takes a lock that nobody has and nobody waits for: one round trip, one row. A change looks at its row when it has it,
-- as it is then, and nobody joins a line without marking the row as crowded. `before` is what this client gave back last.
UPDATE {locks} SET newest = LAST_INSERT_ID(GREATEST(newest + 1, {floor})), used = UTC_DATE(),
    id = {id}, turn = {turn}, weight = {weight}, capacity = {capacity},
    lease_end = UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND, since = UTC_TIMESTAMP(6), evicted = FALSE,
    lingers = {lingers}, owner = {owner}, note = {note}
WHERE name = {name} AND NOT crowded AND (id IS NULL OR id = {before} OR lease_end <= UTC_TIMESTAMP(6));
