UPDATE lockhouse_version SET version = 2;
