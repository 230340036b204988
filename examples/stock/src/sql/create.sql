CREATE TABLE IF NOT EXISTS stock_items (
    id         VARCHAR(64)     NOT NULL PRIMARY KEY,
    quantity   INT             NOT NULL,
    version    BIGINT UNSIGNED NOT NULL,  -- for the optimistic lock
    updated_at DATETIME(6)     NOT NULL,  -- for the other optimistic lock
    token      BIGINT UNSIGNED NOT NULL   -- the newest fencing token that wrote here
) ENGINE = InnoDB
