//! PostgreSQL servers of the tests' own, and clients of theirs.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod psql;
pub(crate) mod subject;

use std::sync::LazyLock;

use lockhouse_core::{Claim, Standing};
use lockhouse_postgres::Postgres;
pub(crate) use lockhouse_testkit::Postgres as Server;
use lockhouse_testkit::{Proxy, Sides};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// The server that most tests share: the one in `LOCKHOUSE_TEST_POSTGRES` if that is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| Server::start(&[]).keep()));
    SHARED.clone()
}

/// The address of a server that was given to the tests.
pub(crate) fn given() -> Option<String> {
    lockhouse_testkit::given("LOCKHOUSE_TEST_POSTGRES")
}

/// Sends a server statements, and gives the first column of the rows of the last of them.
pub(crate) async fn tell(address: &str, statements: &str) -> Vec<String> {
    try_tell(address, statements).await.unwrap()
}

pub(crate) async fn try_tell(address: &str, statements: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(&format!("postgres:{address}"), NoTls).await?;
    let talk = async move {
        let mut rows = Vec::new();
        for message in client.simple_query(statements).await? {
            match message {
                SimpleQueryMessage::Row(row) => rows.push(row.get(0).unwrap_or_default().to_owned()),
                SimpleQueryMessage::RowDescription(_) => rows.clear(),
                _ => {}
            }
        }
        Ok(rows)
    };
    let (rows, _) = futures_util::future::join(talk, connection).await;
    rows
}

/// How many rows there are.
pub(crate) async fn count(address: &str, from: &str) -> u64 {
    tell(address, &format!("SELECT count(*) FROM {from}")).await[0].parse().unwrap()
}

/// The token of a claim that was granted.
pub(crate) fn token(standing: Standing) -> u64 {
    match standing {
        Standing::Granted { token } => token,
        other => panic!("{other:?}"),
    }
}

/// A claim's id, as it stands in a statement.
pub(crate) fn id(claim: &Claim) -> String {
    format!("'\\x{:032x}'", u128::from_be_bytes(*claim.id.as_bytes()))
}

/// Both sides of a client with tables of this name.
pub(crate) async fn client(address: &str, table: &str) -> Sides {
    Sides::of(&Postgres::at(address).unwrap().table(table).unwrap()).await
}

/// A proxy before a server, and the address of the server through it.
pub(crate) fn through(address: &str) -> (Proxy, String) {
    let (user, place) = address.rsplit_once('@').unwrap_or(("//", address));
    let (server, database) = place.split_once('/').expect("an address with a database");
    let proxy = Proxy::before(server.parse().expect("an address with a port"));
    let through = format!("{user}@{}/{database}", proxy.address());
    (proxy, through)
}

/// A name for tables that no other test uses.
pub(crate) fn table() -> String {
    format!("test_{:08x}", rand::random::<u32>())
}
