//! The suite, with locks held by leases.

mod servers;

use lockhouse_mysql::Hold;
use servers::shared;
use servers::subject::{OneServer, connect};

lockhouse_testkit::conformance!(OneServer { address: shared(), hold: Hold::Lease }, taker: connect);
