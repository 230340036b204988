-- For how many microseconds the process that answers has been there, if we may know; whether it takes no writes, as that of
-- a replica; and whether our tables are there.
SELECT coalesce((SELECT (extract(epoch FROM clock_timestamp() - backend_start) * 1000000)::bigint
                 FROM pg_stat_activity WHERE pid = pg_backend_pid()), 0),
       current_setting('transaction_read_only')::boolean, to_regclass('lockhouse_version') IS NOT NULL
