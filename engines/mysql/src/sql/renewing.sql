-- One time for all that is renewed together.
START TRANSACTION;
SET @lockhouse_now = UTC_TIMESTAMP(6);
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', @lockhouse_now);
