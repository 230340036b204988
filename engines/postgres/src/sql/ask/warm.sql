-- Makes a new connection ready: the server compiles functions and plans statements when they are first used, which takes
-- many times as long as using them, and is better done while nobody waits for the lock's row. Nothing of it stays.
BEGIN;
DO $$
DECLARE
    -- No lock has such a name.
    nobody text := E'\x01' || pg_backend_pid();
BEGIN
    -- Alone, in the lock's row.
    PERFORM lockhouse_claim(nobody, '\x01', 1, 1, 0, 1::smallint, 1000000, 0, false, 'nobody', '', NULL);
    PERFORM lockhouse_leave(nobody, '\x01');
    -- In a line.
    PERFORM lockhouse_claim(nobody, '\x01', 1, 1, 0, 1::smallint, 1000000, 0, false, 'nobody', '', NULL);
    PERFORM lockhouse_claim(nobody, '\x02', 1, 1, 0, 1::smallint, 1000000, 0, false, 'nobody', '', NULL);
    PERFORM lockhouse_claim(nobody, '\x02', 1, 1, 0, 1::smallint, 1000000, 0, false, 'nobody', '', NULL);
    PERFORM lockhouse_withdraw(nobody, '\x01');
    PERFORM lockhouse_withdraw(nobody, '\x02');
    -- Alone after others.
    PERFORM lockhouse_claim(nobody, '\x01', 1, 1, 0, 1::smallint, 1000000, 0, false, 'nobody', '', NULL);
END $$;
ROLLBACK;
