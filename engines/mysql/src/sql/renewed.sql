-- Which of them are honoured now, and when that is.
SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM {claims} FORCE INDEX (PRIMARY)
WHERE id IN ({ids}) AND state < 2 AND lease_end > UTC_TIMESTAMP(6) AND NOT evicted;
