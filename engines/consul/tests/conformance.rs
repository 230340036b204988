//! The suite, on a single server.

mod servers;
mod subject;

use subject::{Deployment, connect};

lockhouse_testkit::conformance!(Deployment::single(), taker: connect);
