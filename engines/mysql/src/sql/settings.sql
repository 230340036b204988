-- The server's own: a session's were set by us.
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
'version', 'read_only', 'super_read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',
'binlog_format', 'wsrep_on', 'group_replication_group_name', 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled',
'transaction_isolation', 'tx_isolation', 'innodb_lock_wait_timeout', 'wait_timeout', 'max_connections');
