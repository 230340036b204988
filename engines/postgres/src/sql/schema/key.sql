-- The key of the advisory lock that stands for a name, for everybody:
-- SELECT pg_advisory_lock(lockhouse_key('orders/42')). It is the first eight bytes of the name's SHA-256: names do not
-- get into each other's way by chance.
CREATE OR REPLACE FUNCTION lockhouse_key(the_name text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ('x' || encode(substring(sha256(convert_to(the_name, 'UTF8')) FROM 1 FOR 8), 'hex'))::bit(64)::bigint
$$;
