-- Said last, when everything else is there.
UPDATE lockhouse_version SET version = 3;
