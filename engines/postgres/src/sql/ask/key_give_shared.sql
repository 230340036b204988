SELECT pg_advisory_unlock_shared(lockhouse_key($1))
