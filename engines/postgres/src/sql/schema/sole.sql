-- A claim that nobody is beside stands in its lock's own row: one update takes the lock, and one gives it back. Nothing
-- of this has an index, so the row stays where it is (a heap-only update). Others who come move that claim into
-- lockhouse_claims first. It does not move back before its lease is over: who looks there second misses nobody.
--
-- A row is crowded until a claim finds that nobody is there. So are rows of before, whose claims are where they were.
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('lockhouse_locks') AND attname = 'crowded') THEN
        RETURN;
    END IF;
    ALTER TABLE lockhouse_locks
        ADD crowded   boolean NOT NULL DEFAULT true, -- whoever there is stands in lockhouse_claims; if not, nobody does
        ADD id        bytea,       -- of the claim that stands here, null when none does; the rest is what it left behind
        ADD token     bigint,
        ADD weight    bigint,
        ADD capacity  bigint,
        ADD priority  integer,
        ADD lease_end timestamptz, -- from then on the lock is free, though nobody may have cleaned up
        ADD since     timestamptz,
        ADD lingers   boolean,
        ADD evicted   boolean,
        ADD channel   text,
        ADD owner     text,
        ADD note      text,
        -- The last number that a row gave out which is not crowded is the token of who stands there, or stood. This
        -- also stops a function of version 2 that was at work when the new ones came: it would not see who stands here,
        -- and would not say that the row is crowded.
        ADD CHECK (crowded OR token = counter),
        ADD CHECK (NOT crowded OR id IS NULL);
END $$;
