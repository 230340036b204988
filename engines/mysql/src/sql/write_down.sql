-- Writes down what was given back, and finds what stands in a line by now. A claim only ever moves from its lock's row
-- into the line, so whoever looks there second misses none.
UPDATE {locks} FORCE INDEX (PRIMARY) SET id = NULL WHERE name IN ({names}) AND id IN ({ids});
SELECT id, name FROM {claims} WHERE id IN ({ids});
