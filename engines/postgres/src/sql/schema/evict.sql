-- An operator ends the claims whose ids lie in this range: those that people call by one public id.
CREATE OR REPLACE FUNCTION lockhouse_evict(the_name text, first_id bytea, last_id bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
    at timestamptz;
    mine record;
    was_there boolean := false;
BEGIN
    UPDATE lockhouse_locks SET evicted = true
    WHERE name = the_name AND id BETWEEN first_id AND last_id AND lease_end > clock_timestamp();
    IF FOUND THEN
        -- It stands in its lock's row, and nobody else is there.
        RETURN true;
    END IF;
    SELECT counter INTO newest FROM lockhouse_locks WHERE name = the_name FOR UPDATE;
    IF NOT FOUND AND EXISTS (SELECT FROM lockhouse_claims WHERE name = the_name) THEN
        -- Somebody deleted it.
        newest := lockhouse_enter(the_name, 0);
    END IF;
    at := clock_timestamp();
    FOR mine IN
        SELECT state, id, channel FROM lockhouse_claims
        WHERE name = the_name AND state IN (0, 1) AND id BETWEEN first_id AND last_id AND lease_end > at
    LOOP
        was_there := true;
        IF mine.state = 0 THEN
            -- Its place stays taken until it withdraws or its lease is over.
            UPDATE lockhouse_claims SET evicted = true WHERE name = the_name AND state = 0 AND id = mine.id;
        ELSE
            UPDATE lockhouse_claims SET state = 2 WHERE name = the_name AND state = 1 AND id = mine.id;
            PERFORM pg_notify(mine.channel, encode(mine.id, 'hex'));
        END IF;
    END LOOP;
    IF was_there THEN
        PERFORM lockhouse_settle(the_name, newest, at);
    END IF;
    RETURN was_there;
END $$;
