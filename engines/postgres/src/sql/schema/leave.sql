-- The end of a change: writes the newest number of a name back, if it was raised.
CREATE FUNCTION lockhouse_leave(the_name text, newest bigint, at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lockhouse_locks SET counter = newest, used = at WHERE name = the_name AND counter < newest;
END $$;
