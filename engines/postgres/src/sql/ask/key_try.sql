SELECT pg_try_advisory_lock(lockhouse_key($1))
