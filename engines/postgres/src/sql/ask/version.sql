SELECT version FROM lockhouse_version
