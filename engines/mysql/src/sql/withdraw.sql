DELETE FROM {claims} WHERE id = {id} AND name = {name} AND lease_end > UTC_TIMESTAMP(6);
