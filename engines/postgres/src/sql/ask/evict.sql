SELECT lockhouse_evict($1, $2, $3)
