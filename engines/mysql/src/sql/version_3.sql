-- Version 3: claims that were given back by `?hold=session`, until that is written into their locks' rows. It is kept in
-- memory, unless the server has a binary log or is a node of a cluster: a replica that starts again would have it empty,
-- and fail. There it is not used. A table in memory is locked as a whole, and InnoDB would not see who waits for whom:
-- no statement that touches it waits for a row, or for a reader of many rows, and who writes to it lets readers pass.
CREATE TABLE IF NOT EXISTS {released} (
    id    BINARY(16)  NOT NULL,
    until DATETIME(6) NOT NULL,  -- when its lease is over at the latest
    PRIMARY KEY (id)
) ENGINE = {engine};
