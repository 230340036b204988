//! The suite, on three members.

mod servers;
mod subject;

use subject::{Deployment, connect};

lockhouse_testkit::conformance!(Deployment::ensemble(), taker: connect);
