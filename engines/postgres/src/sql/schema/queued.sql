-- Where a waiter stands: how many claims are ahead, how many of them wait, and in how many microseconds the first lease
-- of a holder is over. It counts to a hundred: who joins a long line must not pay for its length.
CREATE OR REPLACE FUNCTION lockhouse_queued(
    the_name text, the_priority integer, the_arrival bigint, at timestamptz,
    OUT ahead bigint, OUT waiters bigint, OUT left_micros bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT count(*), (extract(epoch FROM min(lease_end) - at) * 1000000)::bigint INTO ahead, left_micros
    FROM lockhouse_claims WHERE name = the_name AND state = 0;
    SELECT count(*) INTO waiters FROM (
        SELECT FROM lockhouse_claims
        WHERE name = the_name AND state = 1 AND lease_end > at
          AND (priority > the_priority OR (priority = the_priority AND arrived < the_arrival))
        LIMIT 100
    ) AS first;
    ahead := ahead + waiters;
END $$;
