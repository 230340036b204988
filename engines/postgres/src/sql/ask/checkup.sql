-- What the doctor shows. `reset_val` is what a connection of anybody else's would have.
SELECT current_setting('server_version') AS version,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros,
       pg_is_in_recovery() AS is_replica,
       current_setting('server_encoding') AS encoding,
       current_setting('fsync')::boolean AS syncs,
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') AS commits,
       (SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_isolation') AS isolation,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS clients,
       current_setting('max_connections')::bigint AS most_clients,
       (SELECT count(*) FROM pg_stat_replication) AS replicas,
       current_setting('synchronous_standby_names') AS synchronous
