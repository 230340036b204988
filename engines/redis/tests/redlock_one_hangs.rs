//! The suite on a majority of five servers, one of them hanging.

mod five;
mod servers;

use five::{Down, Five, connect};

lockhouse_testkit::conformance!(Five::shared(Down { killed: 0, hanging: 1 }), taker: connect);
