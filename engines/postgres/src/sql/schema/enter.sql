-- Locks the row of a name for this transaction, making it first if need be. Gives the newest number of the name.
CREATE FUNCTION lockhouse_enter(the_name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    LOOP
        SELECT counter INTO newest FROM lockhouse_locks WHERE name = the_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO lockhouse_locks VALUES (the_name, 0, clock_timestamp()) ON CONFLICT DO NOTHING;
    END LOOP;
    IF newest = 0 THEN
        -- Read only now: whoever forgot this name before has raised the floor in the same transaction.
        SELECT floor INTO newest FROM lockhouse_version;
    END IF;
    RETURN newest;
END $$;
