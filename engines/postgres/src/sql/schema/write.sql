-- Writes a cell if its version and token allow it; a repetition is answered as the first time.
-- outcome: 0 written (number: the new version), 1 changed (number: its version), 2 stale (number: the newest token).
CREATE OR REPLACE FUNCTION lockhouse_write(
    the_name text, the_id bytea, the_value bytea, if_version bigint, the_token bigint,
    OUT outcome smallint, OUT number bigint
) LANGUAGE plpgsql AS $$
DECLARE
    cell record;
BEGIN
    LOOP
        UPDATE lockhouse_cells
        SET version = version + 1, token = greatest(token, the_token), write_id = the_id, value = the_value
        WHERE name = the_name AND write_id <> the_id
          AND (if_version IS NULL OR version = if_version) AND (the_token IS NULL OR token <= the_token)
        RETURNING 0, version INTO outcome, number;
        EXIT WHEN FOUND;
        SELECT version, token, write_id INTO cell FROM lockhouse_cells WHERE name = the_name FOR UPDATE;
        IF NOT FOUND AND if_version <> 0 THEN
            outcome := 1;
            number := 0;
            RETURN;
        ELSIF NOT FOUND THEN
            INSERT INTO lockhouse_cells VALUES (the_name, 1, coalesce(the_token, 0), the_id, the_value)
            ON CONFLICT DO NOTHING RETURNING 0, version INTO outcome, number;
            EXIT WHEN FOUND;
        ELSIF cell.write_id = the_id THEN
            outcome := 0;
            number := cell.version;
            RETURN;
        ELSIF the_token < cell.token THEN
            outcome := 2;
            number := cell.token;
            RETURN;
        ELSIF if_version <> cell.version THEN
            outcome := 1;
            number := cell.version;
            RETURN;
        END IF;
    END LOOP;
END $$;
