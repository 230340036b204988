//! Locks that nobody else seems to want: the turn and the bolt are taken, and given back, by one request each, and
//! whoever asks sends it.

mod servers;

use std::time::Duration;

use lockhouse_core::{Locks, Release};
use lockhouse_mysql::{Hold, Mysql};
use lockhouse_testkit::eventually;
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

/// Whether another program could take the lock.
async fn is_open(server: &Server, name: &str) -> bool {
    number(&server.address(), &format!("SELECT IS_FREE_LOCK({})", key(name))).await == 1
}

/// How many `SELECT`s some pairs take: a bolt that is shut by itself is one, and so is one that is opened by itself.
async fn selects(server: &Server, locks: &Locks, name: &str) -> i64 {
    let count = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_SELECT'";
    let before = number(&server.address(), count).await;
    for _ in 0..PAIRS {
        pair(locks, name).await;
    }
    number(&server.address(), count).await - before
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_and_the_bolt_go_together_unless_something_else_is_held_by_the_connection() {
    let server = Server::start(&[]);
    let locks = client(&server).await;
    for name in ["x", "y"] {
        pair(&locks, name).await;
    }
    let alone = selects(&server, &locks, "x").await;
    assert!(alone < PAIRS / 2, "{alone} for {PAIRS}");
    assert!(is_open(&server, "x").await, "given back, and still shut");
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
    assert!(!is_open(&server, "x").await, "held, and not shut");
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
    assert!(is_open(&server, "x").await, "given back, and still shut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_given_back_by_two_requests_when_one_fails() {
    for fails in [
        // With the bolt open, and with the bolt shut.
        "CREATE TRIGGER fails BEFORE INSERT ON lockhouse_released FOR EACH ROW SIGNAL SQLSTATE '45000'",
        "LOCK TABLES lockhouse_released READ",
    ] {
        let server = Server::start(&[]);
        let (locks, observer, mut stranger) =
            (client(&server).await, client(&server).await, plain(&server.address()).await);
        pair(&locks, "x").await;
        stranger.query_drop(fails).await.unwrap();
        for _ in 0..3 {
            let guard = locks.mutex("x").lock().await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Release::Freed);
            assert!(is_open(&server, "x").await, "given back, and still shut");
            assert!(observer.line("x").await.unwrap().is_none(), "given back, and still there");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_given_up_is_carried_out_to_its_end() {
    let server = Server::start(&[]);
    let locks = client(&server).await;
    let mut stranger = plain(&server.address()).await;
    pair(&locks, "x").await;
    let holder = format!("SELECT COALESCE(IS_USED_LOCK({}), 0)", key("x"));
    let guard = locks.mutex("x").lock().await.unwrap();
    let first = number(&server.address(), &holder).await;
    guard.release().await.unwrap();
    stranger.query_drop("START TRANSACTION; SELECT 1 FROM lockhouse_locks WHERE name = 'x' FOR UPDATE").await.unwrap();
    // The server waits for a row for a second.
    let waits = tokio::time::timeout(Duration::from_millis(50), locks.mutex("x").lock()).await;
    assert!(waits.is_err(), "in although its row is locked");
    stranger.disconnect().await.unwrap();
    let observer = client(&server).await;
    let is_left = async || observer.line("x").await.unwrap().is_some();
    eventually(LONG, "it is taken out", async || !is_left().await && number(&server.address(), &holder).await == 0)
        .await;
    let _guard = locks.mutex("x").lock().await.unwrap();
    assert_eq!(number(&server.address(), &holder).await, first, "the connection is another one");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stands_still_while_it_gives_a_lock_back_costs_no_other_lock() {
    let server = Server::start(&[]);
    let locks = client(&server).await;
    let lease = Duration::from_secs(2);
    let kept = locks.mutex("kept").ttl(lease).lock().await.unwrap();
    let other = locks.mutex("other").ttl(lease).lock().await.unwrap();
    let stands_still = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut release = std::pin::pin!(other.release());
            assert!(futures_util::poll!(&mut release).is_pending());
            std::thread::sleep(2 * lease);
            drop(release.await);
        });
    });
    tokio::select! {
        _ = kept.lost() => panic!("lost"),
        still = stands_still => still.unwrap(),
    }
    kept.check().unwrap();
}
