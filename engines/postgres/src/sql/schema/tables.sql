-- What the PostgreSQL engine keeps. `lockhouse_` stands for the name in the engine's URL, ?table=schema.name.
--
-- Everything is changed by the functions beside this file, each call of which is one transaction of its own under READ
-- COMMITTED. Whoever changes the claims of a name has its row in lockhouse_locks locked, and no other row of that table.
-- Renewals alone change claims of many names, and those in lockhouse_claims without that; they never wait for anybody.
-- So there is no circle of waiting, and no deadlock.
--
-- Times are those of the server (clock_timestamp), never a client's. Rows come and go all the time: the tables are vacuumed
-- often, and never cut short, for which everybody would have to wait.
--
-- Everything that is created can be created again, and nothing happens: whoever runs these statements by hand need not
-- know how far somebody else has come.

-- One row for each lock. It is there before anybody searches for claims, so that two newcomers meet at it. It has more
-- columns, for a claim that nobody is beside: see sole.sql.
CREATE TABLE IF NOT EXISTS lockhouse_locks (
    name    text COLLATE "C" PRIMARY KEY,
    counter bigint NOT NULL,       -- the newest number given out: tokens and places in line; 0 for a row just made
    used    timestamptz NOT NULL   -- when the counter was last raised: a row that nobody uses is forgotten some day
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        vacuum_truncate = off);

-- One row for each claim of a lock that several want: who holds it and who waits for it.
--
-- The key begins with the name and the state: the holders of a name lie side by side, however many wait.
CREATE TABLE IF NOT EXISTS lockhouse_claims (
    name      text COLLATE "C" NOT NULL,
    state     smallint NOT NULL,   -- 0 holds, 1 waits, 2 was taken out of the line by an operator while it waited
    id        bytea NOT NULL,      -- a secret: who knows it can release the lock
    weight    bigint NOT NULL,
    capacity  bigint NOT NULL,
    priority  integer NOT NULL,
    arrived   bigint NOT NULL,     -- its number in the order of arrival; 0 when it never had to wait
    token     bigint,              -- the fencing number; null while it waits
    lease_end timestamptz NOT NULL,-- from then on the claim is as good as gone
    since     timestamptz NOT NULL,-- when it joined the line or, once it holds, when it was granted
    lingers   boolean NOT NULL,    -- nobody renews it any more
    evicted   boolean NOT NULL,    -- an operator ended a holder that has not withdrawn yet
    channel   text NOT NULL,       -- where its client listens
    owner     text NOT NULL,       -- for people
    note      text,                -- for people
    PRIMARY KEY (name, state, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        vacuum_truncate = off);

-- Who is next. Holders are not in it, so a lock that nobody waits for never touches it.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index WHERE indrelid = to_regclass('lockhouse_claims') AND indpred IS NOT NULL) THEN
        CREATE INDEX ON lockhouse_claims (name, priority DESC, arrived) WHERE state = 1;
    END IF;
END $$;

-- Small versioned values that check fencing tokens.
CREATE TABLE IF NOT EXISTS lockhouse_cells (
    name     text COLLATE "C" PRIMARY KEY,
    version  bigint NOT NULL,
    token    bigint NOT NULL,      -- the newest fencing token seen by a write
    write_id bytea NOT NULL,       -- of the last write, so that a repetition is recognised
    value    bytea NOT NULL
);

-- One row: how far the migrations have come, and the highest counter of the locks that were forgotten. A lock that is
-- used again goes on from there, so tokens grow across it.
CREATE TABLE IF NOT EXISTS lockhouse_version (
    version integer NOT NULL,
    floor   bigint NOT NULL
);
INSERT INTO lockhouse_version SELECT 1, 0 WHERE NOT EXISTS (SELECT FROM lockhouse_version);
