-- The weight of the holders of a name whose lease is not over; the others are swept.
CREATE OR REPLACE FUNCTION lockhouse_held(the_name text, at timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
    first_end timestamptz;
BEGIN
    LOOP
        SELECT coalesce(sum(weight), 0), min(lease_end) INTO held, first_end
        FROM lockhouse_claims WHERE name = the_name AND state = 0;
        EXIT WHEN first_end IS NULL OR first_end > at;
        -- The lease may have been renewed since we looked: then the row stays, and we look again.
        DELETE FROM lockhouse_claims WHERE name = the_name AND state = 0 AND lease_end <= at;
    END LOOP;
    RETURN held;
END $$;
