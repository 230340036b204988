CREATE TABLE IF NOT EXISTS stock_items (
    id         text        PRIMARY KEY,
    quantity   bigint      NOT NULL,
    version    bigint      NOT NULL,  -- for the optimistic lock
    updated_at timestamptz NOT NULL,  -- for the other optimistic lock
    token      bigint      NOT NULL   -- the newest fencing token that wrote here
)
