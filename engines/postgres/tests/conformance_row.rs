//! The suite, on one server, with locks held by a row.

mod servers;

use lockhouse_core::Locks;
use lockhouse_postgres::Hold;
use servers::shared;
use servers::subject::{OneServer, connect_with};

async fn connect(url: String) -> Locks {
    connect_with(url, Hold::Row).await
}

lockhouse_testkit::conformance!(OneServer(shared(), Hold::Row), taker: connect);
