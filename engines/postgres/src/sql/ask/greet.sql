-- Who answers, and whether our tables are there.
SELECT pg_backend_pid(), to_regclass('lockhouse_version') IS NOT NULL
