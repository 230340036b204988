-- What the embedded engine keeps. Everything is changed by the engine alone, in short BEGIN IMMEDIATE transactions.
--
-- Times are nanoseconds of the machine's boot clock, so they mean something only until the next start of the machine:
-- see the table "boot".

-- One row for each claim: who holds a name and who waits for it.
--
-- The key begins with the name and the state, so that the holders of a name lie side by side and a claim is found by
-- its id without an index of its own. An uncontended lock and its release change this one page and nothing else.
CREATE TABLE claims (
    name      TEXT    NOT NULL,
    state     INTEGER NOT NULL,  -- 0 holds, 1 waits, 2 was taken out of the line by an operator while it waited
    id        BLOB    NOT NULL,  -- a secret: who knows it can release the lock
    owner     TEXT    NOT NULL,  -- for people
    weight    INTEGER NOT NULL,
    capacity  INTEGER NOT NULL,
    priority  INTEGER NOT NULL,
    arrived   INTEGER NOT NULL,  -- its number in the order of arrival; 0 when it never had to wait
    token     INTEGER,           -- the fencing number; NULL while it waits
    lease_end INTEGER NOT NULL,  -- from then on the claim is as good as gone
    client    INTEGER,           -- whose file lock shows that the claim lives; NULL when the lease alone decides
    since     INTEGER NOT NULL,  -- when it joined the line or, once it holds, when it was granted
    note      TEXT,              -- for people
    evicted   INTEGER NOT NULL,  -- 1 when an operator ended a holder that has not withdrawn yet
    PRIMARY KEY (name, state, id)
) STRICT, WITHOUT ROWID;

-- Who is next. Holders are not in it, so a lock that nobody waits for never touches it.
CREATE INDEX waiting ON claims (name, priority DESC, arrived) WHERE state = 1;

-- The row with the empty name is no claim (a name is never empty). Its token is the newest number given out: tokens of
-- all names and numbers of arrival come from this one counter. It is kept here so that a grant changes one page of the
-- file instead of two.
INSERT INTO claims VALUES ('', 0, x'', 'the counter', 0, 0, 0, 0, 0, 0, NULL, 0, NULL, 0);

-- Small versioned values that check fencing tokens.
CREATE TABLE cells (
    name     TEXT    PRIMARY KEY NOT NULL,
    version  INTEGER NOT NULL,
    token    INTEGER NOT NULL,   -- the newest fencing token seen by a write
    write_id BLOB    NOT NULL,   -- of the last write, so that a repetition is recognised
    value    BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- Under which start of the machine the claims were made: one row. When it is another one, every claim is void.
CREATE TABLE boot (
    id TEXT NOT NULL
) STRICT;
INSERT INTO boot VALUES ('');
