-- The SELECT locks the cell and tells what the UPDATE will find; the UPDATE compares once more by itself.
START TRANSACTION;
SELECT version, token, write_id FROM {cells} WHERE name = {name} FOR UPDATE;
UPDATE {cells} SET version = version + 1, token = GREATEST(token, {token}), write_id = {id}, value = {value}
WHERE name = {name} AND write_id <> {id} AND token <= COALESCE({fence}, token) AND version = COALESCE({if_version}, version);
COMMIT;
