//! Locks that nobody else seems to want: the turn and the bolt are taken by one request.

mod servers;

use std::time::Duration;

use lockhouse_core::{Locks, Release};
use lockhouse_mysql::{Hold, Mysql};
use mysql_async::prelude::Queryable;
use servers::{Server, number, plain, tell};

const LONG: Duration = Duration::from_secs(30);
const PAIRS: i64 = 40;

/// The key of a name, worked out as the README says.
fn key(name: &str) -> String {
    format!("CONCAT('lockhouse:', LEFT(SHA2('{name}', 256), 54))")
}

async fn client(server: &Server) -> Locks {
    Locks::new(Mysql::at(&server.address()).unwrap().hold(Hold::Session)).await.unwrap()
}

async fn pair(locks: &Locks, name: &str) {
    locks.mutex(name).lock().await.unwrap().release().await.unwrap();
}

/// How many `SELECT`s some pairs take: a bolt that is shut by itself is one, and so is one that is opened.
async fn selects(server: &Server, locks: &Locks, name: &str) -> i64 {
    let count = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_SELECT'";
    let before = number(&server.address(), count).await;
    for _ in 0..PAIRS {
        pair(locks, name).await;
    }
    number(&server.address(), count).await - before
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_and_the_bolt_are_had_by_one_request_unless_something_else_is_held_by_the_connection() {
    let server = Server::start(&[]);
    let locks = client(&server).await;
    for name in ["x", "y"] {
        pair(&locks, name).await;
    }
    let alone = selects(&server, &locks, "x").await;
    assert!(alone < PAIRS * 3 / 2, "{alone} for {PAIRS}");
    let _held = locks.mutex("x").lock().await.unwrap();
    let beside = selects(&server, &locks, "y").await;
    assert!(beside >= PAIRS * 2, "{beside} for {PAIRS}: a request that waits would hold up what is held");
}

/// Takes the lock while a stranger's connection is in the way, which it is not for longer than this.
async fn gets_in_after(server: &Server, in_the_way: &str, time: Duration) {
    let locks = client(server).await;
    pair(&locks, "x").await;
    let mut stranger = plain(&server.address()).await;
    stranger.query_drop(in_the_way).await.unwrap();
    let mutex = locks.mutex("x").wait(LONG);
    let mut waiting = std::pin::pin!(mutex.lock());
    assert!(tokio::time::timeout(time, &mut waiting).await.is_err(), "in beside a stranger");
    stranger.disconnect().await.unwrap();
    let guard = waiting.await.unwrap();
    guard.check().unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_another_program_has_is_waited_for() {
    let in_the_way = format!("SELECT GET_LOCK({}, 0)", key("x"));
    gets_in_after(&Server::start(&[]), &in_the_way, Duration::from_millis(500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_has_for_longer_than_it_is_waited_for_is_waited_for_elsewhere() {
    let in_the_way = "START TRANSACTION; SELECT 1 FROM lockhouse_locks WHERE name = 'x' FOR UPDATE";
    gets_in_after(&Server::start(&[]), in_the_way, Duration::from_millis(1500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_had_by_two_requests_when_one_fails_and_nothing_stays_shut() {
    let server = Server::start(&[]);
    let locks = client(&server).await;
    pair(&locks, "x").await;
    // It fails with the bolt shut.
    let fails = format!(
        "CREATE TRIGGER fails BEFORE UPDATE ON lockhouse_locks FOR EACH ROW
         IF IS_USED_LOCK({}) = CONNECTION_ID() THEN SIGNAL SQLSTATE '45000'; END IF",
        key("x")
    );
    tell(&server.address(), &fails).await;
    let guard = tokio::time::timeout(LONG, locks.mutex("x").lock()).await.expect("by two requests").unwrap();
    guard.check().unwrap();
    let is_open = format!("SELECT IS_FREE_LOCK({})", key("x"));
    assert_eq!(number(&server.address(), &is_open).await, 0, "held, and not shut");
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
    assert_eq!(number(&server.address(), &is_open).await, 1, "given back, and still shut");
}
