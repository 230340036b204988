-- Sweeps what is over under a name, and lets in who is next. Somebody who is at work there already does it as well. A
-- claim that stands in its lock's row needs no sweeping, and nobody waits behind it.
CREATE OR REPLACE FUNCTION lockhouse_tidy(the_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
    at timestamptz;
BEGIN
    SELECT counter INTO newest FROM lockhouse_locks WHERE name = the_name AND crowded FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        at := clock_timestamp();
        DELETE FROM lockhouse_claims WHERE name = the_name AND lease_end <= at;
        PERFORM lockhouse_settle(the_name, newest, at);
    END IF;
END $$;
