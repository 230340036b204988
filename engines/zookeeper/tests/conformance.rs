//! The suite, on one server.

mod servers;

use servers::shared;
use servers::subject::{AtServers, connect};

lockhouse_testkit::conformance!(AtServers::new(shared(), 1), taker: connect);
