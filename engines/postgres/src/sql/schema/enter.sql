-- Locks the row of a name for this transaction, making it first if need be, and raises its counter: the next number, and
-- not one below the floor. Whoever there is stands in lockhouse_claims then.
CREATE OR REPLACE FUNCTION lockhouse_enter(the_name text, the_floor bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    LOOP
        -- The counter of a row just made goes on from where the forgotten ones ended. It is read only after the row was
        -- made: whoever forgot this name before has raised it in the same transaction.
        UPDATE lockhouse_locks
        SET counter = greatest(
                counter + 1, the_floor, CASE WHEN counter = 0 THEN (SELECT floor + 1 FROM lockhouse_version) END),
            used = clock_timestamp(), crowded = true
        WHERE name = the_name AND id IS NULL RETURNING counter INTO newest;
        EXIT WHEN FOUND;
        newest := lockhouse_crowd(the_name, the_floor);
        EXIT WHEN newest IS NOT NULL;
        INSERT INTO lockhouse_locks VALUES (the_name, 0, clock_timestamp()) ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN newest;
END $$;
