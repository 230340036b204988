-- Names that need tidying although nobody may ask for them again. Reads the whole table: for the sweep only.
SELECT DISTINCT name FROM lockhouse_claims WHERE lease_end <= clock_timestamp() LIMIT 1000
