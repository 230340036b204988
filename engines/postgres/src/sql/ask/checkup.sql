-- What the doctor shows. $1: the tables that must be written. `reset_val` is what a connection of anybody else's would
-- have.
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
       current_setting('synchronous_standby_names') AS synchronous,
       (SELECT string_agg(its.privilege || ' on ' || mine.name, ', ')
        FROM unnest($1) AS mine (name)
        CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS its (privilege)
        WHERE NOT has_table_privilege(mine.name, its.privilege)) AS missing,
       has_schema_privilege(split_part('lockhouse_locks', '.', 1), 'CREATE') AS may_create,
       (SELECT string_agg(
            name || ' ' || CASE reset_val WHEN '0' THEN 'none' ELSE reset_val || unit END, ', ' ORDER BY name)
        FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_session_timeout',
                                        'idle_in_transaction_session_timeout', 'transaction_timeout')) AS times,
       current_setting('server_version_num')::integer AS number
