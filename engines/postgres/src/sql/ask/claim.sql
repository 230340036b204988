SELECT standing, number, waiters, left_micros, micros
FROM lockhouse_claim($1, $2, $3, $4, $5, $12, $6, $7, $8, $9, $10, $11)
