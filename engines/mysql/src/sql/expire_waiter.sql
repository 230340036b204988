DELETE FROM {claims} WHERE id = {id} AND state = 1 AND lease_end <= UTC_TIMESTAMP(6);
