SELECT FROM lockhouse_rows WHERE name = $1 FOR SHARE
