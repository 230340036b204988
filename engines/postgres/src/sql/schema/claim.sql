-- Puts a claim in line or, if it is there already, renews its lease and says where it stands.
--
-- standing: 0 granted (number: its token), 1 queued (number: how many are ahead), 2 refused,
--           3 the name is in use with another capacity (number), 4 the claim weighs less than asked for (number).
-- patience: 0 none, 1 waits, 2 barges.
CREATE FUNCTION lockhouse_claim(
    the_name text, the_id bytea, the_weight bigint, the_capacity bigint, the_priority integer, patience smallint,
    ttl_micros bigint, the_floor bigint, the_lingers boolean, the_channel text, the_owner text, the_note text,
    OUT standing smallint, OUT number bigint, OUT waiters bigint, OUT left_micros bigint, OUT micros bigint
) LANGUAGE plpgsql AS $$
DECLARE
    newest bigint := lockhouse_enter(the_name, the_floor);
    at timestamptz := clock_timestamp();
    the_end timestamptz := at + ttl_micros * interval '1 microsecond';
    mine lockhouse_claims;
    fits boolean := true;
BEGIN
    micros := (extract(epoch FROM at) * 1000000)::bigint;
    -- A name that nobody wants is the usual case, and is decided by one look.
    IF EXISTS (SELECT FROM lockhouse_claims WHERE name = the_name) THEN
        -- One look for each state: then the whole key is known, and the line is not searched.
        SELECT * INTO mine FROM lockhouse_claims WHERE name = the_name AND state = 0 AND id = the_id
        UNION ALL SELECT * FROM lockhouse_claims WHERE name = the_name AND state = 1 AND id = the_id
        UNION ALL SELECT * FROM lockhouse_claims WHERE name = the_name AND state = 2 AND id = the_id;
        IF FOUND AND mine.lease_end > at THEN
            SELECT * INTO standing, number, waiters, left_micros FROM lockhouse_again(
                mine, the_weight, the_capacity, the_end, the_floor, the_lingers, the_channel, newest, at);
            RETURN;
        ELSIF FOUND THEN
            -- It is out of the line, and whoever is behind it comes first.
            DELETE FROM lockhouse_claims WHERE name = the_name AND state = mine.state AND id = the_id;
        END IF;
        newest := lockhouse_settle(the_name, newest, at) + 1;
        UPDATE lockhouse_locks SET counter = newest WHERE name = the_name;
        SELECT number_in_use, has_room INTO number, fits FROM lockhouse_look(
            the_name, the_weight, the_capacity, the_priority, patience = 2, at);
        IF number <> the_capacity OR (NOT fits AND patience = 0) THEN
            standing := CASE WHEN number <> the_capacity THEN 3 ELSE 2 END;
            RETURN;
        END IF;
    END IF;
    INSERT INTO lockhouse_claims VALUES (
        the_name, CASE WHEN fits THEN 0 ELSE 1 END, the_id, the_weight, the_capacity, the_priority,
        CASE WHEN fits THEN 0 ELSE newest END, CASE WHEN fits THEN newest END, the_end, at, the_lingers, false,
        the_channel, the_owner, the_note);
    IF fits THEN
        standing := 0;
        number := newest;
    ELSE
        standing := 1;
        SELECT * INTO number, waiters, left_micros FROM lockhouse_queued(the_name, the_priority, newest, at);
    END IF;
END $$;
