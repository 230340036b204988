//! The suite, on one server, with locks held by a session.

mod servers;

use lockhouse_core::Locks;
use lockhouse_postgres::Hold;
use servers::shared;
use servers::subject::{OneServer, connect_with};

async fn connect(url: String) -> Locks {
    connect_with(url, Hold::Session).await
}

lockhouse_testkit::conformance!(OneServer(shared(), Hold::Session), taker: connect);
