SELECT version, token, value FROM lockhouse_cells WHERE name = $1
