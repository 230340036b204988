SELECT was_there, micros FROM lockhouse_leave($1, $2)
