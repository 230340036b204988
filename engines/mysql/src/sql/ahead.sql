SELECT COUNT(*) FROM {claims}
WHERE name = {name} AND (state = 0 OR (state = 1 AND (turn < {turn} OR (turn = {turn} AND arrived < {arrived}))))
AND lease_end > UTC_TIMESTAMP(6);
