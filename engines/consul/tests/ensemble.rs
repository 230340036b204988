//! The suite, on three servers.

mod servers;
mod subject;

use subject::{Deployment, connect};

lockhouse_testkit::conformance!(Deployment::ensemble(), taker: connect);
