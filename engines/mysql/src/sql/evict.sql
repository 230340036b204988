-- Who was given back is not there any more.
SELECT EXISTS (SELECT 1 FROM {released} WHERE id BETWEEN {first} AND {last});
-- A holder's place stays taken; a waiter leaves the line and is remembered, so that it can be told.
UPDATE {locks} SET evicted = TRUE
WHERE name = {name} AND id BETWEEN {first} AND {last} AND lease_end > UTC_TIMESTAMP(6);
UPDATE {claims} SET evicted = TRUE, state = IF(state = 1, 2, state)
WHERE name = {name} AND id BETWEEN {first} AND {last} AND state < 2 AND lease_end > UTC_TIMESTAMP(6);
