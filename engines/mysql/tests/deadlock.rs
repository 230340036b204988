//! Two transactions that look for a row that is not there, and then both insert it: with the statements that people
//! write first, each waits for the gap that the other has locked. Ours never do.

mod servers;

use std::sync::Arc;

use lockhouse_core::{Connector, Engine, Side, Standing};
use lockhouse_mysql::Mysql;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use servers::{Server, claim, number, plain, tell};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const CLIENTS: usize = 32;
/// New names are what matters, so each client meets more than there are clients.
const ROUNDS: usize = 4;

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
    let deadlocks =
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_deadlocks'";
    assert_eq!(number(&server.address(), deadlocks).await, 0);
}
