-- Whether others use the name as another kind of lock.
SELECT capacity FROM {claims} WHERE name = {name} AND state < 2 AND lease_end > UTC_TIMESTAMP(6) AND capacity <> {capacity} LIMIT 1;
