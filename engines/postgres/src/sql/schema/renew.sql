-- Renews many leases at once. It never waits: a claim that somebody else is changing at this moment is skipped, and told
-- as such. Every row is looked for by its whole key, its state included: the lines are not searched.
--
-- For each claim, by its number from 1: outcome 1 renewed, 2 there but not renewed; nothing for one that is gone.
-- Outcome 3 says that the line of this claim, which waits, has a holder whose lease is over, or none.
CREATE OR REPLACE FUNCTION lockhouse_renew(names text[], ids bytea[], ttls bigint[], lingering boolean[])
RETURNS TABLE (nr bigint, outcome smallint, micros bigint) LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
    at_micros bigint := (extract(epoch FROM at) * 1000000)::bigint;
    alone bigint;
    renewed bigint;
BEGIN
    -- Those that stand in their lock's row.
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT asked.nr, asked.ttl, asked.lingers, mine.name
        FROM unnest(names, ids, ttls, lingering) WITH ORDINALITY AS asked (name, id, ttl, lingers, nr)
        JOIN lockhouse_locks AS mine ON mine.name = asked.name AND mine.id = asked.id
        WHERE mine.lease_end > at AND NOT mine.evicted AND NOT mine.lingers
        FOR UPDATE OF mine SKIP LOCKED
    )
    UPDATE lockhouse_locks AS mine
    SET lease_end = at + free.ttl * interval '1 microsecond', lingers = free.lingers
    FROM free WHERE mine.name = free.name
    RETURNING free.nr, 1::smallint, at_micros;
    GET DIAGNOSTICS alone = ROW_COUNT;
    IF alone = cardinality(ids) THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT asked.nr, asked.ttl, asked.lingers, mine.name, mine.state, mine.id
        FROM unnest(names, ids, ttls, lingering) WITH ORDINALITY AS asked (name, id, ttl, lingers, nr)
        CROSS JOIN (VALUES (0), (1)) AS its (state)
        JOIN lockhouse_claims AS mine ON mine.name = asked.name AND mine.state = its.state AND mine.id = asked.id
        WHERE mine.lease_end > at AND NOT mine.evicted AND NOT mine.lingers
        FOR UPDATE OF mine SKIP LOCKED
    )
    UPDATE lockhouse_claims AS mine
    SET lease_end = at + free.ttl * interval '1 microsecond', lingers = free.lingers
    FROM free WHERE mine.name = free.name AND mine.state = free.state AND mine.id = free.id
    RETURNING free.nr, 1::smallint, at_micros;
    GET DIAGNOSTICS renewed = ROW_COUNT;
    IF alone + renewed < cardinality(ids) THEN
        -- One statement, which sees both tables as they were at one moment: a claim that moves from one to the other is
        -- in exactly one of them, and not taken for one that is gone.
        RETURN QUERY
        SELECT asked.nr, CASE WHEN mine.lingers THEN 1 ELSE 2 END::smallint, at_micros
        FROM unnest(names, ids) WITH ORDINALITY AS asked (name, id, nr)
        JOIN lockhouse_locks AS mine ON mine.name = asked.name AND mine.id = asked.id
        WHERE mine.lease_end > at AND NOT mine.evicted
        UNION ALL
        SELECT asked.nr, CASE WHEN mine.lingers THEN 1 ELSE 2 END::smallint, at_micros
        FROM unnest(names, ids) WITH ORDINALITY AS asked (name, id, nr)
        CROSS JOIN (VALUES (0), (1)) AS its (state)
        JOIN lockhouse_claims AS mine ON mine.name = asked.name AND mine.state = its.state AND mine.id = asked.id
        WHERE mine.lease_end > at AND NOT mine.evicted;
    END IF;
    -- Who waits is never alone.
    RETURN QUERY
    SELECT DISTINCT ON (asked.name) asked.nr, 3::smallint, at_micros
    FROM unnest(names, ids) WITH ORDINALITY AS asked (name, id, nr)
    JOIN lockhouse_claims AS mine ON mine.name = asked.name AND mine.state = 1 AND mine.id = asked.id
    LEFT JOIN LATERAL (
        SELECT min(holder.lease_end) AS first_end
        FROM lockhouse_claims AS holder WHERE holder.name = asked.name AND holder.state = 0
    ) AS held ON true
    WHERE held.first_end IS NULL OR held.first_end <= at;
END $$;
