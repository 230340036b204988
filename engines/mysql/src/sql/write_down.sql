-- Writes down what was given back. A claim only ever moves from its lock's row into the line, so whoever looks there second
-- misses none; and it is known to be over until it is in neither.
UPDATE {locks} FORCE INDEX (PRIMARY) SET id = NULL WHERE name IN ({names}) AND id IN ({ids});
DELETE FROM {claims} WHERE id IN ({ids});
DELETE FROM {released} WHERE id IN ({ids});
