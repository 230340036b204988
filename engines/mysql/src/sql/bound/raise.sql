-- A holder's token is written back as a larger one.
START TRANSACTION;
UPDATE {locks} SET newest = GREATEST(newest, {floor}) WHERE name = {name};
UPDATE {claims} SET token = GREATEST(token, {floor}) WHERE id = {id} AND state = 0;
COMMIT;
