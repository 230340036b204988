//! The suite, on one server, with locks held by leases.

mod servers;

use lockhouse_core::Locks;
use lockhouse_postgres::Hold;
use servers::shared;
use servers::subject::{OneServer, connect_with};

async fn connect(url: String) -> Locks {
    connect_with(url, Hold::Lease).await
}

lockhouse_testkit::conformance!(OneServer(shared(), Hold::Lease), taker: connect);
