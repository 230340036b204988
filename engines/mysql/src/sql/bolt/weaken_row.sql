-- A lock on a row cannot be made weaker: it is let go, and taken anew as a reader's.
COMMIT;
START TRANSACTION;
SELECT 1 FROM {rows} WHERE name = {name} {mode} NOWAIT;
