SHOW VARIABLES WHERE Variable_name IN (
'version', 'read_only', 'super_read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',
'binlog_format', 'wsrep_on', 'transaction_isolation', 'tx_isolation', 'innodb_lock_wait_timeout', 'wait_timeout',
'max_connections');
