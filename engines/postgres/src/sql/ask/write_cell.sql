SELECT outcome, number FROM lockhouse_write($1, $2, $3, $4, $5)
