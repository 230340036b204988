-- As lockhouse_withdraw, for claims of short leases. When nobody else is in line it does not wait for the disk: should
-- a crash of the server bring the claim back, it ends with its lease. Who lets somebody in does wait.
CREATE OR REPLACE FUNCTION lockhouse_leave(
    the_name text, the_id bytea, OUT was_there boolean, OUT micros bigint
) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lockhouse_locks SET id = NULL WHERE name = the_name AND id = the_id
    RETURNING lease_end > clock_timestamp(), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    INTO was_there, micros;
    IF NOT FOUND THEN
        SELECT * INTO was_there, micros FROM lockhouse_withdraw(the_name, the_id);
        IF EXISTS (SELECT FROM lockhouse_claims WHERE name = the_name) THEN
            RETURN;
        END IF;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;
