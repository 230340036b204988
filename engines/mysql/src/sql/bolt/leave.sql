-- Opens the bolt of a claim that nobody else is beside, and gives its lock back as `tell` does: the bolt first, and when
-- it does nothing, neither. On the connection that has shut it, which holds nothing else, since this may wait for a second.
/*M!100300 SET STATEMENT lock_wait_timeout = 1 FOR */
INSERT LOW_PRIORITY IGNORE INTO {released} (id, until)
SELECT id, UTC_TIMESTAMP(6) + INTERVAL IF(RELEASE_LOCK(CONCAT('lockhouse:', LEFT(SHA2({name}, 256), 54))) = 1, {ttl}, {ttl}) MICROSECOND
FROM {locks}
WHERE name = {name} AND id = {id} AND lease_end > UTC_TIMESTAMP(6) AND NOT @@GLOBAL.log_bin;
