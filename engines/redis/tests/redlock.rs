//! The suite on a majority of five servers, all of them well.

mod five;
mod servers;

use five::{Down, Five, connect};

lockhouse_testkit::conformance!(Five::shared(Down { killed: 0, hanging: 0 }), taker: connect);
