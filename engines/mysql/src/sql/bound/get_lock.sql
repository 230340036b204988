-- The lock itself. When it fails, nothing must be left of what was there before.
SET @lockhouse_got = NULL;
SET @lockhouse_got = GET_LOCK({key}, {seconds});
