//! The suite, with locks held by transactions that have a row locked.

mod servers;

use lockhouse_mysql::Hold;
use servers::shared;
use servers::subject::{OneServer, connect};

lockhouse_testkit::conformance!(OneServer { address: shared(), hold: Hold::Row }, taker: connect);
