-- Gives back a lock that nobody else wanted. The row stays, and its numbers with it.
UPDATE {locks} SET id = NULL WHERE name = {name} AND id = {id} AND lease_end > UTC_TIMESTAMP(6);
