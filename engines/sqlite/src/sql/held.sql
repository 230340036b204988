-- The holders of a name at a glance.
SELECT coalesce(sum(weight), 0), max(capacity), min(lease_end) FROM claims WHERE name = ?1 AND state = 0
