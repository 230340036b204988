//! The suite on a majority of five servers, one of them killed.

mod five;
mod servers;

use five::{Down, Five, connect};

lockhouse_testkit::conformance!(Five::shared(Down { killed: 1, hanging: 0 }), taker: connect);
