SELECT pg_try_advisory_lock_shared(lockhouse_key($1))
