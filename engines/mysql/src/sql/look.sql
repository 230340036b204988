-- The line as it is. Its gate is locked, so nobody joins and nobody is let in meanwhile. Claims can leave, be renewed and
-- be evicted all the same; the claim that asks cannot, because its own row is locked too.
SELECT state, turn, arrived, weight, capacity, token, lease_end > UTC_TIMESTAMP(6), evicted, lingers
FROM {claims} WHERE id = {id} AND name = {name} FOR UPDATE;
-- Holders that gave their locks back, when this is not written down yet. Looked at before they are counted: it may be
-- written down meanwhile.
SELECT id FROM {claims} WHERE name = {name} AND state = 0 AND id IN (SELECT id FROM {released});
SELECT COUNT(*), COALESCE(SUM(weight), 0), MAX(capacity), COALESCE(SUM(lease_end <= UTC_TIMESTAMP(6)), 0)
FROM {claims} WHERE name = {name} AND state = 0;
SELECT id, turn, weight, capacity, lease_end > UTC_TIMESTAMP(6)
FROM {claims} WHERE name = {name} AND state = 1 ORDER BY turn, arrived LIMIT {window};
-- Whoever was taken out of the line and may not know yet. Looked at last: somebody may leave it for there meanwhile.
SELECT EXISTS (SELECT 1 FROM {claims} WHERE name = {name} AND state = 2);
