//! MariaDB servers of the tests' own, and clients of theirs.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod subject;

use std::sync::LazyLock;
use std::time::Duration;

use lockhouse_core::Claim;
use lockhouse_mysql::Mysql;
pub(crate) use lockhouse_testkit::MariaDb as Server;
use lockhouse_testkit::Sides;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row};

/// The server that most tests share: the one in `LOCKHOUSE_TEST_MYSQL` if that is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| Server::start(&[]).keep()));
    SHARED.clone()
}

/// The address of a server that was given to the tests.
pub(crate) fn given() -> Option<String> {
    lockhouse_testkit::given("LOCKHOUSE_TEST_MYSQL")
}

/// A connection that has nothing to do with the engine.
pub(crate) async fn plain(address: &str) -> Conn {
    let url = format!("mysql:{address}");
    let options = OptsBuilder::from_opts(mysql_async::Opts::from_url(&url).unwrap()).prefer_socket(false);
    Conn::new(options).await.unwrap()
}

/// Has a server carry out a statement, and says what it found.
pub(crate) async fn tell(address: &str, statement: &str) -> Vec<Row> {
    let mut connection = plain(address).await;
    let rows = connection.query(statement).await.unwrap();
    connection.disconnect().await.unwrap();
    rows
}

/// One number that a statement finds.
pub(crate) async fn number(address: &str, statement: &str) -> i64 {
    tell(address, statement).await[0].get(0).unwrap()
}

/// Both sides of a client, without the client.
pub(crate) async fn client(address: &str, tables: &str) -> Sides {
    Sides::of(&Mysql::at(address).unwrap().tables(tables).unwrap()).await
}

/// Tables that no other test uses.
pub(crate) fn tables() -> String {
    format!("test_{:08x}", rand::random::<u32>())
}

/// A mutex's claim with a lease that no test outlives.
pub(crate) fn claim(name: &str) -> Claim {
    Claim { ttl: Duration::from_secs(30), ..lockhouse_testkit::claim(name) }
}
