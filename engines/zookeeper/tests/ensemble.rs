//! The suite, on an ensemble of three.

mod servers;

use servers::shared_ensemble;
use servers::subject::{AtServers, connect};

lockhouse_testkit::conformance!(AtServers::new(shared_ensemble(), 3), taker: connect);
