-- Releases a claim or leaves the line. Says whether it was there.
CREATE OR REPLACE FUNCTION lockhouse_withdraw(
    the_name text, the_id bytea, OUT was_there boolean, OUT micros bigint
) LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
    sole bytea;
    at timestamptz;
BEGIN
    LOOP
        -- The short way: it stands in its lock's row. If somebody is just moving it into the line, this waits for them,
        -- finds it gone from here, and what comes below sees it there.
        UPDATE lockhouse_locks SET id = NULL WHERE name = the_name AND id = the_id
        RETURNING lease_end > clock_timestamp(), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        INTO was_there, micros;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT counter, id INTO newest, sole FROM lockhouse_locks WHERE name = the_name FOR UPDATE;
        -- It may just have come there: its own request was under way.
        EXIT WHEN sole IS DISTINCT FROM the_id;
    END LOOP;
    IF NOT FOUND AND EXISTS (SELECT FROM lockhouse_claims WHERE name = the_name) THEN
        -- Somebody deleted it.
        newest := lockhouse_enter(the_name, 0);
    END IF;
    at := clock_timestamp();
    micros := (extract(epoch FROM at) * 1000000)::bigint;
    -- One look for each state: then the whole key is known, and the line is not searched.
    FOR the_state IN 0..2 LOOP
        DELETE FROM lockhouse_claims WHERE name = the_name AND state = the_state AND id = the_id
        RETURNING lease_end > at INTO was_there;
        EXIT WHEN FOUND;
    END LOOP;
    IF was_there IS NOT NULL THEN
        PERFORM lockhouse_settle(the_name, newest, at);
    END IF;
    was_there := coalesce(was_there, false);
END $$;
