SELECT was_there, micros FROM lockhouse_withdraw($1, $2)
