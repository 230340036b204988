DELETE FROM {claims} WHERE name = {name} AND state = 0 AND (lease_end <= UTC_TIMESTAMP(6) OR id IN ({ids}));
