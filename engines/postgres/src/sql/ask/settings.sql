-- What every connection of ours sets for itself. Rows are looked up by a key, also while the tables are still small, and
-- not by bitmaps, which leave the dead entries of an index for the next one to read again. A statement that a client has
-- given up on does not wait for ever.
SET statement_timeout = '5s';
SET lock_timeout = 0;
SET default_transaction_isolation = 'read committed';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
SET client_min_messages = warning;
-- A grant that a crash of the server can take back is none.
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
