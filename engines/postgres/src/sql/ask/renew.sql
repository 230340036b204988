SELECT nr, outcome, micros FROM lockhouse_renew($1, $2, $3, $4)
