//! Locks of PostgreSQL's own, taken by `psql`, and ours exclude each other, both ways.

mod servers;

use std::time::Duration;

use lockhouse_core::{Kind, Locks};
use lockhouse_postgres::Hold;
use servers::psql::Psql;
use servers::shared;
use servers::subject::postgres;

/// A name that needs care in a statement.
const NAME: &str = "orders/42 'é'";
/// The key as the README says it can be computed without a function of ours.
const KEY: &str = "('x' || left(encode(sha256(convert_to('orders/42 ''é''', 'UTF8')), 'hex'), 16))::bit(64)::bigint";
const ROW: &str = "lockhouse_rows WHERE name = 'orders/42 ''é'''";
const MOMENT: Duration = Duration::from_secs(1);

/// How `psql` takes a lock of a kind, tries to, and lets go of it.
struct Way {
    hold: Hold,
    take: String,
    share: String,
    /// Gives a row that begins with `t` if it could be taken, and takes nothing.
    could: String,
    give: &'static str,
}

fn ways() -> [Way; 2] {
    [
        Way {
            hold: Hold::Session,
            take: format!("SELECT pg_advisory_lock({KEY})"),
            share: format!("SELECT pg_advisory_lock_shared({KEY})"),
            could: format!("SELECT pg_try_advisory_lock({KEY}); SELECT pg_advisory_unlock({KEY})"),
            give: "SELECT pg_advisory_unlock_all()",
        },
        Way {
            hold: Hold::Row,
            take: format!("BEGIN; SELECT 1 FROM {ROW} FOR UPDATE"),
            share: format!("BEGIN; SELECT 1 FROM {ROW} FOR SHARE"),
            could: format!("BEGIN; SELECT 't' FROM {ROW} FOR UPDATE SKIP LOCKED; ROLLBACK"),
            give: "ROLLBACK",
        },
    ]
}

async fn client(hold: Hold) -> Locks {
    Locks::new(postgres(&shared(), hold)).await.unwrap()
}

/// `psql` stays out while we are in, and gets in when we leave.
async fn ours_keeps_out(way: &Way, locks: &Locks) {
    let mut psql = Psql::at(&shared());
    let guard = locks.mutex(NAME).lock().await.unwrap();
    assert_ne!(psql.say(&way.could).await, "t", "{:?}: not kept out", way.hold);
    psql.begin(&way.take).await;
    assert!(tokio::time::timeout(MOMENT, psql.done()).await.is_err(), "{:?}: not kept out", way.hold);
    guard.check().unwrap();
    guard.release().await.unwrap();
    psql.done().await;
    assert!(locks.mutex(NAME).try_lock().await.unwrap().is_none(), "{:?}: in beside psql", way.hold);
    psql.say(way.give).await;
}

/// We stay out while `psql` is in, try or wait, and get in when it leaves.
async fn theirs_keeps_out(way: &Way, locks: &Locks) {
    let mut psql = Psql::at(&shared());
    psql.say(&way.take).await;
    assert!(locks.mutex(NAME).try_lock().await.unwrap().is_none(), "{:?}: in beside psql", way.hold);
    let error = locks.mutex(NAME).wait(MOMENT).lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    // Longer than one statement waits, and longer than one lease.
    let waiting = locks.mutex(NAME).ttl(Duration::from_secs(1));
    let leaving = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        psql.say(way.give).await;
        tokio::time::Instant::now()
    };
    let (guard, left) = tokio::join!(waiting.lock(), leaving);
    let guard = guard.unwrap();
    assert!(left.elapsed() < Duration::from_secs(3), "{:?}: told late of its turn", way.hold);
    assert_ne!(psql.say(&way.could).await, "t", "{:?}: not kept out", way.hold);
    guard.release().await.unwrap();
}

/// Readers of either kind are in together, and keep writers of either kind out.
async fn readers_share(way: &Way, locks: &Locks) {
    let mut psql = Psql::at(&shared());
    psql.say(&way.share).await;
    let reader = locks.rwlock(NAME).read().await.unwrap();
    assert!(locks.rwlock(NAME).try_write().await.unwrap().is_none());
    psql.say(way.give).await;
    assert_ne!(psql.say(&way.could).await, "t", "{:?}: a reader does not keep out a writer", way.hold);
    reader.release().await.unwrap();
    let writer = locks.rwlock(NAME).write().await.unwrap();
    assert_ne!(psql.say(&way.could).await, "t", "{:?}: a writer is not alone", way.hold);
    let reader = writer.downgrade().await.unwrap();
    psql.say(&way.share).await;
    psql.say(way.give).await;
    assert_ne!(psql.say(&way.could).await, "t", "{:?}: a reader does not keep out a writer", way.hold);
    reader.release().await.unwrap();
    assert_eq!(psql.say(&way.could).await, "t", "{:?}: something is left", way.hold);
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_and_ours_exclude_each_other_both_ways() {
    for way in ways() {
        let locks = client(way.hold).await;
        ours_keeps_out(&way, &locks).await;
        theirs_keeps_out(&way, &locks).await;
        readers_share(&way, &locks).await;
    }
    let mut psql = Psql::at(&shared());
    assert_eq!(psql.say(&format!("SELECT lockhouse_key('orders/42 ''é''') = {KEY}")).await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_hold_in_different_ways_exclude_each_other() {
    let holds = [Hold::Lease, Hold::Session, Hold::Row];
    for one in holds {
        let (one, name) = (client(one).await, "every way");
        let guard = one.mutex(name).lock().await.unwrap();
        for other in holds {
            assert!(client(other).await.mutex(name).try_lock().await.unwrap().is_none(), "{other:?} got in");
        }
        guard.release().await.unwrap();
    }
}
