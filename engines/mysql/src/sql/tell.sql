-- Gives back a lock that nobody else wanted, without a word to the disk. What its row says is written later. It lets
-- everybody pass who only reads the table, and does nothing on a server that has got a binary log since. A renewal that
-- is on its way ends no later than a lease begun now.
/*M!100300 SET STATEMENT lock_wait_timeout = 1 FOR */
INSERT LOW_PRIORITY IGNORE INTO {released} (id, until)
SELECT id, UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND FROM {locks}
WHERE name = {name} AND id = {id} AND lease_end > UTC_TIMESTAMP(6) AND NOT @@GLOBAL.log_bin;
