//! Two transactions that look for a row that is not there, and then both insert it: with the statements that people
//! write first, each waits for the gap that the other has locked. Ours never do.

mod servers;

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Connector, Engine, Locks, Side, Standing};
use lockhouse_mysql::{Hold, Mysql};
use lockhouse_testkit::eventually;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use servers::{Server, claim, number, plain, tell};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const CLIENTS: usize = 32;
/// New names are what matters, so each client meets more than there are clients.
const ROUNDS: usize = 4;
const LONG: Duration = Duration::from_secs(30);

/// Takes a lock as it is often shown: look whether the row is there, insert it if not.
async fn naive(connection: &mut Conn, name: &str, both_looked: &Barrier) -> mysql_async::Result<()> {
    connection.query_drop("START TRANSACTION").await?;
    let found = format!("SELECT name FROM naive WHERE name = '{name}' FOR UPDATE");
    let found: Option<String> = connection.query_first(found).await?;
    both_looked.wait().await;
    if found.is_none() {
        connection.query_drop(format!("INSERT INTO naive VALUES ('{name}')")).await?;
    }
    connection.query_drop("COMMIT").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_naive_statements_deadlock() {
    let server = Server::start(&[]);
    tell(&server.address(), "CREATE TABLE naive (name VARCHAR(64) PRIMARY KEY) ENGINE = InnoDB").await;
    let (mut one, mut two) = (plain(&server.address()).await, plain(&server.address()).await);
    let both_looked = Barrier::new(2);
    let (one, two) = tokio::join!(naive(&mut one, "a", &both_looked), naive(&mut two, "a", &both_looked));
    let deadlocks = [one, two].into_iter().filter_map(Result::err).filter(|error| match error {
        mysql_async::Error::Server(error) => error.code == 1213,
        other => panic!("{other}"),
    });
    assert_eq!(deadlocks.count(), 1, "one of both is ended by the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_on_many_new_names_never_deadlock() {
    let server = Server::start(&[]);
    let mut clients: Vec<Arc<dyn Engine>> = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Mysql::at(&server.address()).unwrap().connect(Side::Front).await.unwrap());
    }
    let all_at_once = Arc::new(Barrier::new(CLIENTS));
    let mut tasks = JoinSet::new();
    for (first, client) in clients.into_iter().enumerate() {
        let all_at_once = Arc::clone(&all_at_once);
        tasks.spawn(async move {
            let mut granted = 0;
            for (round, at) in (0..ROUNDS).flat_map(|round| (0..CLIENTS).map(move |at| (round, at))) {
                // Half of the names are asked for by everybody at the same time, half in another order by each.
                let name = if at % 2 == 0 { at } else { (first + at) % CLIENTS };
                if at % 2 == 0 {
                    all_at_once.wait().await;
                }
                let claim = claim(&format!("new {round} {name}"));
                if let Standing::Granted { .. } = client.claim(&claim).await.unwrap() {
                    granted += 1;
                }
            }
            granted
        });
    }
    let granted: usize = tasks.join_all().await.into_iter().sum();
    // One that saw a lock's row which was made behind its back took the lock of whoever had made it.
    assert_eq!(granted, CLIENTS * ROUNDS, "every name has one holder, and the others wait");
    assert_eq!(deadlocks(&server.address()).await, 0);
}

/// How many the server has ended.
async fn deadlocks(address: &str) -> i64 {
    let counted =
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_deadlocks'";
    number(address, counted).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_do_those_who_hold_by_connections() {
    for hold in [Hold::Session, Hold::Row] {
        let server = Server::start(&[]);
        let all_at_once = Arc::new(Barrier::new(CLIENTS));
        let mut tasks = JoinSet::new();
        for first in 0..CLIENTS {
            let (all_at_once, mysql) = (Arc::clone(&all_at_once), Mysql::at(&server.address()).unwrap().hold(hold));
            tasks.spawn(async move {
                let (locks, mut guards) = (Locks::new(mysql.rows(CLIENTS)).await.unwrap(), Vec::new());
                all_at_once.wait().await;
                for at in 0..CLIENTS {
                    let name = format!("new {}", if at % 2 == 0 { at } else { (first + at) % CLIENTS });
                    guards.extend(locks.mutex(&name).try_lock().await.unwrap());
                }
                all_at_once.wait().await;
                guards.len()
            });
        }
        let granted: usize = tasks.join_all().await.into_iter().sum();
        assert_eq!(granted, CLIENTS, "{hold:?}: every name has one holder");
        assert_eq!(deadlocks(&server.address()).await, 0, "{hold:?}");
    }
}

/// Whoever else locks our rows, in another order: the server ends the one that has changed less, which is ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_the_server_ends_in_favour_of_another_is_made_again() {
    let server = Server::start(&[]);
    let client = Mysql::at(&server.address()).unwrap().connect(Side::Front).await.unwrap();
    let (holder, waiter) = (claim("a"), claim("a"));
    client.claim(&holder).await.unwrap();
    client.claim(&waiter).await.unwrap();
    let mut other = plain(&server.address()).await;
    for statement in [
        "CREATE TABLE much (id INT PRIMARY KEY) ENGINE = InnoDB",
        "START TRANSACTION",
        "INSERT INTO much SELECT seq FROM seq_1_to_100",
        "SELECT 1 FROM lockhouse_claims WHERE state = 1 FOR UPDATE",
    ] {
        other.query_drop(statement).await.unwrap();
    }
    let waits = "SELECT COUNT(*) FROM information_schema.INNODB_LOCK_WAITS";
    let mut asking = JoinSet::new();
    asking.spawn(async move { client.claim(&waiter).await });
    // It has the gate, and waits for its own row. The server shows what it showed last to whoever looks again within a
    // tenth of a second.
    let is_shown = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        number(&server.address(), waits).await > 0
    };
    eventually(LONG, "ours waits", is_shown).await;
    other.query_drop("SELECT 1 FROM lockhouse_gates FOR UPDATE").await.unwrap();
    assert_eq!(deadlocks(&server.address()).await, 1);
    other.query_drop("COMMIT").await.unwrap();
    assert_eq!(asking.join_next().await.unwrap().unwrap().unwrap(), Standing::Queued { ahead: 1 });
}
