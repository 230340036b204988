-- Others come: moves the claim that stands in the lock's row in among theirs, unless its lease is over. Says whether
-- there was one. The row is locked then.
CREATE OR REPLACE FUNCTION lockhouse_crowd(the_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    sole lockhouse_locks;
BEGIN
    SELECT * INTO sole FROM lockhouse_locks WHERE name = the_name AND id IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE lockhouse_locks SET crowded = true, id = NULL WHERE name = the_name;
    IF sole.lease_end > clock_timestamp() THEN
        INSERT INTO lockhouse_claims VALUES (
            the_name, 0, sole.id, sole.weight, sole.capacity, sole.priority, 0, sole.token, sole.lease_end, sole.since,
            sole.lingers, sole.evicted, sole.channel, sole.owner, sole.note);
    END IF;
    RETURN true;
END $$;
