-- Forgets locks that nobody has used for a day. The highest of their numbers is where such a lock goes on from.
CREATE OR REPLACE FUNCTION lockhouse_forget() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- A row that is used in between is looked at again, and its `used` is new then.
    WITH idle AS MATERIALIZED (
        SELECT name FROM lockhouse_locks AS lock
        WHERE used < clock_timestamp() - interval '1 day' AND (id IS NULL OR lease_end <= clock_timestamp())
          AND NOT EXISTS (SELECT FROM lockhouse_claims AS claim WHERE claim.name = lock.name)
        LIMIT 1000 FOR UPDATE SKIP LOCKED
    ), forgotten AS (
        DELETE FROM lockhouse_locks AS lock USING idle WHERE lock.name = idle.name RETURNING lock.counter
    )
    UPDATE lockhouse_version SET floor = greatest(floor, (SELECT max(counter) FROM forgotten))
    WHERE EXISTS (SELECT FROM forgotten);
END $$;
