-- A claim that is in line was sent again: its lease is renewed, a smaller weight is a downgrade, a floor raises its token.
CREATE OR REPLACE FUNCTION lockhouse_again(
    mine lockhouse_claims, the_weight bigint, the_capacity bigint, the_end timestamptz, the_floor bigint,
    the_lingers boolean, the_channel text, newest bigint, at timestamptz,
    OUT standing smallint, OUT number bigint, OUT waiters bigint, OUT left_micros bigint
) LANGUAGE plpgsql AS $$
BEGIN
    IF mine.state = 2 OR mine.capacity <> the_capacity OR the_weight > mine.weight THEN
        standing := CASE WHEN mine.state = 2 THEN 2 WHEN mine.capacity <> the_capacity THEN 3 ELSE 4 END;
        number := CASE WHEN standing = 3 THEN mine.capacity ELSE mine.weight END;
        RETURN;
    END IF;
    -- One that lingers is left as it is, and one that an operator ended is renewed no more.
    IF NOT (mine.lingers OR mine.evicted) THEN
        UPDATE lockhouse_claims
        SET weight = the_weight, lease_end = the_end, lingers = the_lingers, channel = the_channel
        WHERE name = mine.name AND state = mine.state AND id = mine.id;
    END IF;
    IF mine.state = 0 AND mine.token < the_floor THEN
        mine.token := the_floor;
        UPDATE lockhouse_claims SET token = the_floor WHERE name = mine.name AND state = 0 AND id = mine.id;
    END IF;
    IF mine.state = 1 OR the_weight < mine.weight THEN
        PERFORM lockhouse_settle(mine.name, newest, at);
    END IF;
    SELECT 0, token INTO standing, number
    FROM lockhouse_claims WHERE name = mine.name AND state = 0 AND id = mine.id;
    IF NOT FOUND THEN
        standing := 1;
        SELECT * INTO number, waiters, left_micros
        FROM lockhouse_queued(mine.name, mine.priority, mine.arrived, at);
    END IF;
END $$;
