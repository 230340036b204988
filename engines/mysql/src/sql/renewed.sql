-- Which of them are honoured now.
SELECT id FROM {claims} FORCE INDEX (PRIMARY)
WHERE id IN ({ids}) AND state < 2 AND lease_end > UTC_TIMESTAMP(6) AND NOT evicted;
