-- The machine was started anew: no claim of the time before counts. Commits lost in a power cut cannot make a token go
-- back, because nobody gives out 2^32 of them between two checkpoints.
DELETE FROM claims WHERE name > '';
UPDATE claims SET token = token + 4294967296 WHERE name = '';
