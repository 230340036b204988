-- `GET_LOCK` takes 64 characters at most, and ignores their case.
SELECT GET_LOCK(CONCAT('lockhouse:', LEFT(SHA2({name}, 256), 54)), 0);
