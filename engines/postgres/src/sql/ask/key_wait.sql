SELECT pg_advisory_lock(lockhouse_key($1))
