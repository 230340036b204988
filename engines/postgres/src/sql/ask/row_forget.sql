-- The rows of locks that nobody has used for a day. Who has one locked uses it.
DELETE FROM lockhouse_rows WHERE name IN (
    SELECT name FROM lockhouse_rows AS mine
    WHERE NOT EXISTS (SELECT FROM lockhouse_locks AS lock WHERE lock.name = mine.name)
    LIMIT 1000 FOR UPDATE SKIP LOCKED)
