//! What the server is, who stands before it, and what the account may do: whom the engine refuses, and what the doctor
//! is told.

mod servers;

use std::net::SocketAddr;
use std::time::Duration;

use lockhouse_core::{Checkup, Connector, Happened, Kind, Locks, Side, Standing, Withdrawal};
use lockhouse_mysql::{Hold, Mysql};
use lockhouse_testkit::free_port;
use servers::{Server, claim, client, tell};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

fn fact<'a>(checkup: &'a Checkup, what: &str) -> Option<&'a str> {
    checkup.facts.iter().find(|fact| fact.what == what).map(|fact| fact.value.as_str())
}

/// Whether it has found something that says so, or advises so.
fn found(checkup: &Checkup, what: &str) -> bool {
    checkup.findings.iter().any(|finding| format!("{finding:?}").contains(what))
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_refused() {
    let server = Server::start(&["--read-only"]);
    let error = Locks::new(Mysql::at(&server.address()).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[tokio::test]
async fn an_account_needs_few_rights_and_is_told_of_those_it_lacks() {
    let server = Server::start(&[]);
    let address = server.address();
    client(&address, "lockhouse").await;
    for statement in [
        "CREATE USER alice@'127.0.0.1' IDENTIFIED BY 's3cret'",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON lockhouse.* TO alice@'127.0.0.1'",
    ] {
        tell(&address, statement).await;
    }
    let at = |account: &str| Mysql::at(&format!("//{account}@127.0.0.1:{}/lockhouse", server.port())).unwrap();
    let front = at("alice:s3cret").create(false).connect(Side::Front).await.unwrap();
    assert!(matches!(front.claim(&claim("a")).await.unwrap(), Standing::Granted { .. }));
    let error = at("alice:wrong").connect(Side::Front).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
    tell(&address, "REVOKE DELETE ON lockhouse.* FROM alice@'127.0.0.1'").await;
    let front = at("alice:s3cret").create(false).connect(Side::Front).await.unwrap();
    let error = front.withdraw(&claim("a")).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_happened()), (Kind::Denied, Happened::No), "{error}");
    // The doctor says what is missing, and nothing else.
    let checkup = front.checkup().await.unwrap();
    let missing =
        ["locks", "gates", "claims", "cells", "rows", "released"].map(|table| format!("DELETE on `lockhouse_{table}`"));
    let missing = format!("not {}", missing.join(", "));
    assert!(checkup.facts.iter().any(|fact| fact.what == "rights" && fact.value == missing), "{checkup:?}");
    assert!(checkup.findings.iter().any(|one| one.what.contains("may not DELETE on")), "{checkup:?}");
}

#[tokio::test]
async fn the_doctor_is_told_what_matters() {
    let server = Server::start(&[
        "--innodb-flush-log-at-trx-commit=2",
        "--log-bin",
        "--transaction-isolation=SERIALIZABLE",
        "--innodb-lock-wait-timeout=7",
        "--wait-timeout=77",
    ]);
    let checkup = client(&server.address(), "lockhouse").await.front.checkup().await.unwrap();
    for (what, value) in [
        ("storage engine", "InnoDB"),
        // The server's own, and not what our connections are set to.
        ("isolation", "read committed here; serializable by default"),
        ("longest wait for a row by default, in s", "7"),
        ("idle connections end by default after, in s", "77"),
        ("replication", "asynchronous, if there are replicas"),
        ("rights", "all that locks need"),
    ] {
        assert_eq!(fact(&checkup, what), Some(value), "{what}");
    }
    assert!(fact(&checkup, "server").is_some_and(|server| server.starts_with("MariaDB 1")), "{checkup:?}");
    assert!(checkup.server_time.is_some_and(|time| time > Duration::from_secs(1_700_000_000)));
    assert!(found(&checkup, "innodb_flush_log_at_trx_commit is 2") && found(&checkup, "a fail-over can lose a grant"));
}

#[tokio::test]
async fn the_doctor_is_told_which_tables_are_not_kept_as_they_should_be() {
    let server = Server::start(&["--log-bin"]);
    let client = client(&server.address(), "lockhouse").await;
    assert!(!found(&client.front.checkup().await.unwrap(), "ALTER"));
    tell(&server.address(), "ALTER TABLE lockhouse_locks ENGINE = Aria").await;
    tell(&server.address(), "ALTER TABLE lockhouse_released ENGINE = MEMORY").await;
    let checkup = client.front.checkup().await.unwrap();
    assert_eq!(fact(&checkup, "storage engine"), Some("InnoDB, but lockhouse_locks by Aria"));
    assert!(
        found(&checkup, "lockhouse_locks is kept by Aria") && found(&checkup, "lockhouse_released is kept in memory")
    );
}

/// A node that is a cluster by itself.
#[tokio::test]
async fn a_node_of_galera_keeps_leases_and_nothing_that_a_connection_holds() {
    let options = format!("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{}", free_port());
    let server = Server::start(&[
        "--wsrep-on=ON",
        "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
        "--wsrep-cluster-address=gcomm://",
        "--wsrep-node-address=127.0.0.1",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
        &options,
    ]);
    for hold in [Hold::Session, Hold::Row] {
        let error = Locks::new(Mysql::at(&server.address()).unwrap().hold(hold)).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_happened()), (Kind::Unsupported, Happened::No), "{hold:?}: {error}");
        assert!(error.to_string().contains("Galera"), "{error}");
    }
    let client = client(&server.address(), "lockhouse").await;
    let (first, second) = (claim("a"), claim("a"));
    assert!(matches!(client.front.claim(&first).await.unwrap(), Standing::Granted { .. }));
    assert!(matches!(client.front.claim(&second).await.unwrap(), Standing::Queued { .. }));
    assert_eq!(client.front.withdraw(&first).await.unwrap(), Withdrawal::Withdrawn);
    assert!(matches!(client.front.claim(&second).await.unwrap(), Standing::Granted { .. }));
    let checkup = client.front.checkup().await.unwrap();
    assert_eq!(fact(&checkup, "replication"), Some("by Galera"));
    assert!(found(&checkup, "Galera") && !found(&checkup, "in memory"));
}

/// Passes on what the server says but for the number that it gives to a connection, as one does that gives many the
/// same few connections.
async fn sharing(listener: TcpListener, server: SocketAddr) {
    let mut passing = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        passing.spawn(async move {
            let mut server = TcpStream::connect(server).await.unwrap();
            let mut greeting = vec![0; 1024];
            let length = server.read(&mut greeting).await.unwrap();
            // Behind a head of four bytes and the protocol's version: the server's, which ends with a zero.
            let number = 5 + greeting[5..].iter().position(|byte| *byte == 0).unwrap() + 1;
            greeting[number] ^= 0x55;
            client.write_all(&greeting[..length]).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

#[tokio::test]
async fn who_shares_connections_is_refused_where_a_connection_holds() {
    let server = Server::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("//root@127.0.0.1:{}/lockhouse", listener.local_addr().unwrap().port());
    let mut proxy = JoinSet::new();
    proxy.spawn(sharing(listener, SocketAddr::from(([127, 0, 0, 1], server.port()))));
    for hold in [Hold::Session, Hold::Row] {
        let error = Locks::new(Mysql::at(&address).unwrap().hold(hold)).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_happened()), (Kind::Unsupported, Happened::No), "{hold:?}: {error}");
        assert!(error.to_string().contains("shares connections"), "{error}");
    }
    let locks = Locks::new(Mysql::at(&address).unwrap()).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
}
