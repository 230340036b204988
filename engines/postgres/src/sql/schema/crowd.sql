-- Others come: moves the claim that stands in the lock's row in among theirs, unless its lease is over, and raises the
-- counter as lockhouse_enter does. Gives the newest number, or null if nobody stands there.
CREATE OR REPLACE FUNCTION lockhouse_crowd(the_name text, the_floor bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    sole lockhouse_locks;
    newest bigint;
BEGIN
    SELECT * INTO sole FROM lockhouse_locks WHERE name = the_name AND id IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE lockhouse_locks
    SET counter = greatest(counter + 1, the_floor), used = clock_timestamp(), crowded = true, id = NULL
    WHERE name = the_name RETURNING counter INTO newest;
    IF sole.lease_end > clock_timestamp() THEN
        INSERT INTO lockhouse_claims VALUES (
            the_name, 0, sole.id, sole.weight, sole.capacity, sole.priority, 0, sole.token, sole.lease_end, sole.since,
            sole.lingers, sole.evicted, sole.channel, sole.owner, sole.note);
    END IF;
    RETURN newest;
END $$;
