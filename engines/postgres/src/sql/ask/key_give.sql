SELECT pg_advisory_unlock(lockhouse_key($1))
