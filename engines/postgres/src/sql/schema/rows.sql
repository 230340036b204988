-- One row for each lock that is held by rows (?hold=row), for everybody: SELECT … WHERE name = 'orders/42' FOR UPDATE.
-- Nothing is ever written to it: the counters are elsewhere, since a row that is locked cannot be changed by others.
CREATE TABLE IF NOT EXISTS lockhouse_rows (
    name text COLLATE "C" PRIMARY KEY
);
