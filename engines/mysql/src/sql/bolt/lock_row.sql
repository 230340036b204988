-- The transaction stays open for as long as the lock is held.
START TRANSACTION;
SELECT 1 FROM {rows} WHERE name = {name} {mode} NOWAIT;
