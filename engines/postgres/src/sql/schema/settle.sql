-- Lets in who is next, in order, as long as they fit, and tells their clients. The rule is that of the core's `line`:
-- the first that does not fit stops everybody behind it. Needs the row of the name locked, and its newest number. Gives
-- the newest number.
CREATE OR REPLACE FUNCTION lockhouse_settle(the_name text, newest bigint, at timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    next record;
    room bigint;
    before bigint := newest;
BEGIN
    LOOP
        SELECT id, weight, capacity, lease_end, channel INTO next
        FROM lockhouse_claims WHERE name = the_name AND state = 1 ORDER BY priority DESC, arrived LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF next.lease_end <= at THEN
            -- As above: a renewal may have come in between.
            DELETE FROM lockhouse_claims WHERE name = the_name AND state = 1 AND id = next.id AND lease_end <= at;
            CONTINUE;
        END IF;
        IF room IS NULL THEN
            room := next.capacity - lockhouse_held(the_name, at);
        END IF;
        EXIT WHEN next.weight > room;
        room := room - next.weight;
        newest := newest + 1;
        UPDATE lockhouse_claims SET state = 0, token = newest, since = at
        WHERE name = the_name AND state = 1 AND id = next.id;
        PERFORM pg_notify(next.channel, encode(next.id, 'hex') || ' ' || newest);
    END LOOP;
    IF newest > before THEN
        UPDATE lockhouse_locks SET counter = newest, used = at WHERE name = the_name;
    END IF;
    RETURN newest;
END $$;
