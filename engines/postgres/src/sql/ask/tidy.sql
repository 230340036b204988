SELECT lockhouse_tidy($1)
