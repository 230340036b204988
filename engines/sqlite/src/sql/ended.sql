-- Names that need tidying although nobody may ask for them again. Reads the whole table: for upkeep only.
SELECT DISTINCT name FROM claims WHERE name > '' AND (lease_end <= ?1 OR client = ?2)
