-- From the first name that can have the prefix; the reader stops at the first that has not.
SELECT name, id, owner, weight, capacity, priority, arrived, token, lease_end, client, since, note, evicted
FROM claims WHERE name >= ?1 AND name > '' AND state IN (0, 1) AND lease_end > ?2
ORDER BY name
