SELECT RELEASE_LOCK(CONCAT('lockhouse:', LEFT(SHA2({name}, 256), 54)));
