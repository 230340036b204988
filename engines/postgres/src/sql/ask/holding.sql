-- What a connection that holds locks sets for itself, beside what all of ours do: the server ends it, and frees its
-- locks, when nothing is heard of it for $1 milliseconds. It is tried more often than that. $2: how often the server
-- looks whether the other end is still there while a statement waits. $3 and $4, in seconds: TCP asks whether it is
-- there, and finds out no sooner than $1. $5: how long one statement waits for a lock. Older servers do not have all
-- of these. Gives the process that answers.
SELECT set_config(wanted.name, wanted.value, false), pg_backend_pid()
FROM (VALUES
    ('idle_session_timeout', $1), ('idle_in_transaction_session_timeout', $1), ('tcp_user_timeout', $1),
    ('client_connection_check_interval', $2),
    ('tcp_keepalives_idle', $3), ('tcp_keepalives_interval', $4), ('tcp_keepalives_count', '4'),
    ('lock_timeout', $5), ('transaction_timeout', '0')
) AS wanted (name, value)
WHERE current_setting(wanted.name, true) IS NOT NULL
