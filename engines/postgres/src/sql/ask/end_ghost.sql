-- Ends a connection of ours that we have given up, should the server not know of it yet.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1
