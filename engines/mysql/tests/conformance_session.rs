//! The suite, with locks held by connections that have `GET_LOCK`.

mod servers;

use lockhouse_mysql::Hold;
use servers::shared;
use servers::subject::{OneServer, connect};

lockhouse_testkit::conformance!(OneServer { address: shared(), hold: Hold::Session }, taker: connect);
