UPDATE {claims} SET state = 0, token = {token}, since = UTC_TIMESTAMP(6) WHERE id = {id} AND state = 1;
