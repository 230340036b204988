-- What is kept for locks that are held by connections, in version 1. The connection is what holds a lock; these rows
-- count its tokens and say who holds and who waits. Every statement can be repeated.

-- One row for each name: the newest number given out for it.
CREATE TABLE IF NOT EXISTS {locks} (
    name   VARBINARY(255)  NOT NULL,
    newest BIGINT UNSIGNED NOT NULL,  -- the newest number given out: tokens and numbers of arrival
    used   DATE            NOT NULL,  -- when the name was last locked; rows that nobody used for long are removed
    PRIMARY KEY (name)
) ENGINE = InnoDB;

-- One row for each claim: who holds a name and who waits for it.
CREATE TABLE IF NOT EXISTS {claims} (
    id         BINARY(16)       NOT NULL,
    name       VARBINARY(255)   NOT NULL,
    state      TINYINT UNSIGNED NOT NULL,  -- 0 holds, 1 waits, 2 was taken out of the line by an operator while it waited
    turn       INT              NOT NULL,
    arrived    BIGINT UNSIGNED  NOT NULL,  -- its number in the order of arrival; 0 once it holds
    weight     INT UNSIGNED     NOT NULL,
    capacity   INT UNSIGNED     NOT NULL,
    token      BIGINT UNSIGNED  NULL,      -- the fencing number; NULL while it waits
    connection BIGINT UNSIGNED  NULL,      -- which connection holds; NULL while it waits
    lease_end  DATETIME(6)      NOT NULL,  -- when the client said that it would be heard of by
    since      DATETIME(6)      NOT NULL,  -- when it joined the line or, once it holds, when it was granted
    evicted    BOOLEAN          NOT NULL,  -- an operator ended it, and it has not withdrawn yet
    lingers    BOOLEAN          NOT NULL,  -- never: what is held by a connection ends with it
    owner      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- for people
    note       TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,      -- for people
    PRIMARY KEY (id),
    KEY line (name, state, turn, arrived)
) ENGINE = InnoDB;
