-- As lockhouse_withdraw, for claims of short leases. When nobody else is in line it does not wait for the disk: should a
-- crash of the server bring the claim back, it ends with its lease. Who lets somebody in does wait.
CREATE FUNCTION lockhouse_leave(
    the_name text, the_id bytea, OUT was_there boolean, OUT micros bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO was_there, micros FROM lockhouse_withdraw(the_name, the_id);
    IF NOT EXISTS (SELECT FROM lockhouse_claims WHERE name = the_name) THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END $$;
