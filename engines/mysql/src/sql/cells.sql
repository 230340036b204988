-- Small versioned values that check fencing tokens: the same for every way to hold a lock.
CREATE TABLE IF NOT EXISTS {cells} (
    name     VARBINARY(255)  NOT NULL,
    version  BIGINT UNSIGNED NOT NULL,  -- 0 when it was never written
    token    BIGINT UNSIGNED NOT NULL,  -- the newest fencing token seen by a write
    write_id VARBINARY(16)   NOT NULL,  -- of the last write, so that a repetition is recognised
    value    LONGBLOB        NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;
