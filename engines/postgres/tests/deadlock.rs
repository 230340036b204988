//! A program that knows nothing of Lockhouse waits in a circle with a request of ours, and the server takes ours back:
//! it is sent again.

mod servers;

use std::time::Duration;

use lockhouse_core::{Withdrawal, Write, Written};
use lockhouse_testkit::{claim, eventually};
use servers::psql::Psql;
use servers::{Server, client, count, token};

/// Long enough for the circle to be closed, and short enough for ours to be sent again in its time.
const LOOKS_FOR_CIRCLES: &str = "deadlock_timeout=1500ms";
const DEADLOCKS: &str = "pg_stat_database WHERE datname = 'postgres' AND deadlocks >=";

/// Does something of ours that writes to a row of a table while somebody has that row, and then wants the whole table.
/// They are in no hurry to look for a circle, so it is ours that is taken back.
async fn crossed<T>(server: &Server, table: &str, ours: impl Future<Output = T>) -> T {
    let mut psql = Psql::at(&server.address());
    let begin = format!("SET deadlock_timeout = '10min'; BEGIN; SELECT FROM {table} FOR UPDATE");
    psql.say(&begin).await;
    let cross = async {
        let waiting = "pg_stat_activity WHERE application_name = 'lockhouse' AND wait_event_type = 'Lock'";
        eventually(Duration::from_secs(4), "ours waits", async || count(&server.address(), waiting).await > 0).await;
        psql.say(&format!("LOCK TABLE {table} IN EXCLUSIVE MODE; COMMIT")).await;
    };
    tokio::join!(ours, cross).0
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_takes_back_because_of_a_deadlock_is_sent_again() {
    let server = Server::start(&[LOOKS_FOR_CIRCLES]);
    let client = client(&server.address(), "lockhouse").await;
    let (first, second) = (claim("a"), claim("a"));
    let write =
        |version| Write { id: [version; 16], value: vec![version], if_version: Some(version.into()), token: None };
    token(client.front.claim(&first).await.unwrap());
    client.front.withdraw(&first).await.unwrap();
    client.front.write(&first.name, &write(0)).await.unwrap();

    token(crossed(&server, "lockhouse_locks", client.front.claim(&second)).await.unwrap());
    let written = crossed(&server, "lockhouse_cells", client.front.write(&first.name, &write(1))).await.unwrap();
    assert_eq!(written, Written::Yes { version: 2 });
    let public = second.id.public();
    let evicting = client.front.evict(&second.name, &public);
    assert!(crossed(&server, "lockhouse_locks", evicting).await.unwrap());
    let withdrawing = client.front.withdraw(&second);
    assert_eq!(crossed(&server, "lockhouse_locks", withdrawing).await.unwrap(), Withdrawal::Withdrawn);
    eventually(Duration::from_secs(20), "each was a deadlock", async || {
        count(&server.address(), &format!("{DEADLOCKS} 4")).await == 1
    })
    .await;
    token(client.front.claim(&claim("a")).await.unwrap());
}
