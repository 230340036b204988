-- The counter, and whether there is anything at all under a name.
SELECT token, EXISTS (SELECT 1 FROM claims WHERE name = ?1)
FROM claims WHERE name = '' AND state = 0 AND id = x''
