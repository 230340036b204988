-- What the engine keeps, in version 1. Every statement can be repeated, so programs that start together do not disturb
-- each other. Names are bytes: case, accents and trailing spaces make different locks. Times are UTC.

-- One row for each name that was ever locked. A claim that nobody else is beside stands in it, from `id` on and as in the
-- table of claims: then `newest` is its token. Nobody has this row locked while a client thinks: takers, holders and
-- renewals wait for it.
CREATE TABLE IF NOT EXISTS {locks} (
    name      VARBINARY(255)  NOT NULL,
    newest    BIGINT UNSIGNED NOT NULL,  -- the newest number given out: tokens and numbers of arrival
    used      DATE            NOT NULL,  -- when the name was last locked; rows that nobody used for long are removed
    crowded   BOOLEAN         NOT NULL,  -- there may be claims in the table of claims, and none is here
    id        BINARY(16)      NULL,      -- NULL when no claim is here
    turn      INT             NULL,
    weight    INT UNSIGNED    NULL,
    capacity  INT UNSIGNED    NULL,
    lease_end DATETIME(6)     NULL,
    since     DATETIME(6)     NULL,
    evicted   BOOLEAN         NULL,
    lingers   BOOLEAN         NULL,
    owner     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    note      TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;

-- One row for each name, too: whoever changes its line locks this row first, and may stop to think.
CREATE TABLE IF NOT EXISTS {gates} (
    name VARBINARY(255) NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;

-- One row for each claim of a crowded name: who holds it and who waits for it.
CREATE TABLE IF NOT EXISTS {claims} (
    id        BINARY(16)       NOT NULL,  -- a secret: who knows it can release the lock
    name      VARBINARY(255)   NOT NULL,
    state     TINYINT UNSIGNED NOT NULL,  -- 0 holds, 1 waits, 2 was taken out of the line by an operator while it waited
    turn      INT              NOT NULL,  -- the priority with its sign turned, so that the line is in ascending order
    arrived   BIGINT UNSIGNED  NOT NULL,  -- its number in the order of arrival; 0 when it never had to wait
    weight    INT UNSIGNED     NOT NULL,
    capacity  INT UNSIGNED     NOT NULL,
    token     BIGINT UNSIGNED  NULL,      -- the fencing number; NULL while it waits
    lease_end DATETIME(6)      NOT NULL,  -- from then on the claim is as good as gone
    since     DATETIME(6)      NOT NULL,  -- when it joined the line or, once it holds, when it was granted
    evicted   BOOLEAN          NOT NULL,  -- an operator ended it, and it has not withdrawn yet
    lingers   BOOLEAN          NOT NULL,  -- nobody renews it any more: it keeps the name busy until its lease is over
    owner     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- for people
    note      TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,      -- for people
    PRIMARY KEY (id),
    KEY line (name, state, turn, arrived)
) ENGINE = InnoDB;

-- Small versioned values that check fencing tokens.
CREATE TABLE IF NOT EXISTS {cells} (
    name     VARBINARY(255)  NOT NULL,
    version  BIGINT UNSIGNED NOT NULL,  -- 0 when it was never written
    token    BIGINT UNSIGNED NOT NULL,  -- the newest fencing token seen by a write
    write_id VARBINARY(16)   NOT NULL,  -- of the last write, so that a repetition is recognised
    value    LONGBLOB        NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;
