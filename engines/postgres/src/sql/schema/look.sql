-- Whether a newcomer gets in, in a line that was settled; and the capacity that the name is in use with.
CREATE OR REPLACE FUNCTION lockhouse_look(
    the_name text, the_weight bigint, the_capacity bigint, the_priority integer, barges boolean, at timestamptz,
    OUT number_in_use bigint, OUT has_room boolean
) LANGUAGE plpgsql AS $$
DECLARE
    held bigint := lockhouse_held(the_name, at);
    first record;
BEGIN
    SELECT priority, capacity INTO first
    FROM lockhouse_claims WHERE name = the_name AND state = 1 ORDER BY priority DESC, arrived LIMIT 1;
    has_room := (barges OR NOT FOUND OR first.priority < the_priority) AND the_weight <= the_capacity - held;
    number_in_use := coalesce(
        (SELECT capacity FROM lockhouse_claims WHERE name = the_name AND state = 0 LIMIT 1),
        first.capacity, the_capacity);
END $$;
