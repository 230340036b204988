-- Puts a claim in line or, if it is there already, renews its lease and says where it stands.
--
-- standing: 0 granted (number: its token), 1 queued (number: how many are ahead), 2 refused,
--           3 the name is in use with another capacity (number), 4 the claim weighs less than asked for (number).
-- patience: 0 none, 1 waits, 2 barges.
CREATE OR REPLACE FUNCTION lockhouse_claim(
    the_name text, the_id bytea, the_weight bigint, the_capacity bigint, the_priority integer, patience smallint,
    ttl_micros bigint, the_floor bigint, the_lingers boolean, the_channel text, the_owner text, the_note text,
    OUT standing smallint, OUT number bigint, OUT waiters bigint, OUT left_micros bigint, OUT micros bigint
) LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
    settled bigint;
    at timestamptz;
    the_end timestamptz;
    sole record;
    mine lockhouse_claims;
    fits boolean := true;
    alone boolean;
    made boolean := false;
BEGIN
    LOOP
        -- The short way, and the usual one: nobody is there, and the claim stands in the lock's row. An update that had
        -- to wait for the row decides by what the row is then, and by the time that it is then.
        UPDATE lockhouse_locks
        SET counter = greatest(counter + 1, the_floor), token = greatest(counter + 1, the_floor),
            used = clock_timestamp(), crowded = false, id = the_id, weight = the_weight, capacity = the_capacity,
            priority = the_priority, lease_end = clock_timestamp() + ttl_micros * interval '1 microsecond',
            since = clock_timestamp(), lingers = the_lingers, evicted = false, channel = the_channel,
            owner = the_owner, note = the_note
        WHERE name = the_name AND (NOT crowded OR made) AND (id IS NULL OR lease_end <= clock_timestamp())
        RETURNING 0, counter, (extract(epoch FROM since) * 1000000)::bigint INTO standing, number, micros;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT id, weight, capacity, lease_end INTO sole FROM lockhouse_locks WHERE name = the_name;
        EXIT WHEN FOUND;
        INSERT INTO lockhouse_locks VALUES (the_name, 0, clock_timestamp()) ON CONFLICT DO NOTHING;
        -- The floor as in lockhouse_enter, and read after the row was made for the same reason. A row that is not there
        -- while claims are was deleted by somebody.
        SELECT greatest(the_floor, floor + 1), FOUND AND NOT EXISTS (SELECT FROM lockhouse_claims WHERE name = the_name)
        INTO the_floor, made FROM lockhouse_version;
    END LOOP;
    at := clock_timestamp();
    IF patience = 0 AND sole.id <> the_id AND sole.lease_end > at
        AND (sole.capacity <> the_capacity OR the_weight > sole.capacity - sole.weight) THEN
        -- Who does not wait, and does not fit beside the one who is there, changes nothing.
        standing := CASE WHEN sole.capacity <> the_capacity THEN 3 ELSE 2 END;
        number := sole.capacity;
        micros := (extract(epoch FROM at) * 1000000)::bigint;
        RETURN;
    END IF;
    IF sole.id IS NOT NULL THEN
        newest := lockhouse_crowd(the_name, the_floor);
    END IF;
    newest := coalesce(newest, lockhouse_enter(the_name, the_floor));
    at := clock_timestamp();
    the_end := at + ttl_micros * interval '1 microsecond';
    micros := (extract(epoch FROM at) * 1000000)::bigint;
    alone := NOT EXISTS (SELECT FROM lockhouse_claims WHERE name = the_name);
    IF NOT alone THEN
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
        settled := lockhouse_settle(the_name, newest, at);
        IF settled > newest THEN
            newest := settled + 1;
            UPDATE lockhouse_locks SET counter = newest WHERE name = the_name;
        END IF;
        SELECT number_in_use, has_room INTO number, fits FROM lockhouse_look(
            the_name, the_weight, the_capacity, the_priority, patience = 2, at);
        IF number <> the_capacity OR (NOT fits AND patience = 0) THEN
            standing := CASE WHEN number <> the_capacity THEN 3 ELSE 2 END;
            RETURN;
        END IF;
        -- The last ones may just have been swept.
        alone := fits AND NOT EXISTS (SELECT FROM lockhouse_claims WHERE name = the_name);
    END IF;
    IF alone THEN
        UPDATE lockhouse_locks
        SET token = newest, crowded = false, id = the_id, weight = the_weight, capacity = the_capacity,
            priority = the_priority, lease_end = the_end, since = at, lingers = the_lingers, evicted = false,
            channel = the_channel, owner = the_owner, note = the_note
        WHERE name = the_name;
    ELSE
        INSERT INTO lockhouse_claims VALUES (
            the_name, CASE WHEN fits THEN 0 ELSE 1 END, the_id, the_weight, the_capacity, the_priority,
            CASE WHEN fits THEN 0 ELSE newest END, CASE WHEN fits THEN newest END, the_end, at, the_lingers, false,
            the_channel, the_owner, the_note);
    END IF;
    IF fits THEN
        standing := 0;
        number := newest;
    ELSE
        standing := 1;
        SELECT * INTO number, waiters, left_micros FROM lockhouse_queued(the_name, the_priority, newest, at);
    END IF;
END $$;
