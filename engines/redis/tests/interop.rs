//! redis-py's `Lock` and ours on one key.
//!
//! Python's client is installed into an environment of its own below the target folder, once.

mod servers;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockhouse_core::{Line, Locks};
use lockhouse_redis::Redis;
use lockhouse_testkit::{Peer, python_with};
use servers::{prefix, settle, shared, tell_words};

/// A program in Python that does what it is told, a word a line, and answers each.
fn peer(address: &str, key: &str) -> Peer {
    let mut command = Command::new(python_with("redis", Path::new(env!("CARGO_TARGET_TMPDIR"))));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peer.py")).args([&format!("redis:{address}"), key]);
    Peer::start(&mut command)
}

async fn ours(address: &str, prefix: &str) -> Locks {
    settle(address, prefix);
    Locks::new(Redis::at(address).unwrap().prefix(prefix).unwrap()).await.unwrap()
}

async fn line(locks: &Locks) -> Option<Line> {
    locks.line("a").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refuses_while_the_other_holds_and_neither_releases_the_others() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let mut peer = peer(&address, &format!("{prefix}a"));

    let guard = locks.mutex("a").lock().await.unwrap();
    assert_eq!(peer.ask("try"), "refused");
    // What it would do at the end of a block that it never entered.
    assert_eq!(peer.ask("release"), "not mine");
    guard.check().unwrap();
    assert_eq!(line(&locks).await.unwrap().holders().count(), 1);
    guard.release().await.unwrap();

    assert_eq!(peer.ask("try"), "granted");
    assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
    let seen = line(&locks).await.expect("a stranger's lock is shown");
    assert_eq!(seen.holders().next().unwrap().owner, "another program");
    // A claim of ours that is withdrawn leaves the stranger's lock alone.
    assert!(locks.mutex("a").wait(Duration::from_millis(100)).lock().await.is_err());
    assert_eq!(peer.ask("release"), "released");
    locks.mutex("a").try_lock().await.unwrap().expect("it is free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_gets_in_soon_after_a_stranger_lets_go_or_its_lock_ends() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let mut peer = peer(&address, &format!("{prefix}a"));
    for lets_go in [true, false] {
        // The stranger's lock ends by itself after two seconds.
        assert_eq!(peer.ask("try"), "granted");
        let mutex = locks.mutex("a");
        let waiter = mutex.lock();
        tokio::pin!(waiter);
        assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiter).await.is_err(), "the stranger holds it");
        if lets_go {
            assert_eq!(peer.ask("release"), "released");
        }
        let guard = tokio::time::timeout(Duration::from_secs(5), waiter).await.expect("in time").unwrap();
        assert_eq!(peer.ask("try"), "refused");
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_lock_can_be_evicted() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let mut peer = peer(&address, &format!("{prefix}a"));
    assert_eq!(peer.ask("try"), "granted");
    let id = line(&locks).await.unwrap().places[0].id;
    assert!(locks.evict("a", id).await.unwrap());
    let guard = locks.mutex("a").try_lock().await.unwrap().expect("it ended at once");
    assert_eq!(peer.ask("release"), "not mine");
    guard.check().unwrap();
}

/// Two times two hundred increments of a counter that is read, and written a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_is_lost_between_both() {
    const TIMES: u32 = 200;
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let counter = format!("{prefix}counter");
    tell_words(&address, &["SET", &counter, "0"]);
    let mut peer = peer(&address, &format!("{prefix}a"));
    peer.tell(&format!("count {counter} {TIMES}"));
    for _ in 0..TIMES {
        let guard = locks.mutex("a").lock().await.unwrap();
        let redis::Value::BulkString(seen) = tell_words(&address, &["GET", &counter]) else { panic!("it is there") };
        let seen: u32 = String::from_utf8(seen).unwrap().parse().unwrap();
        tell_words(&address, &["SET", &counter, &(seen + 1).to_string()]);
        guard.release().await.unwrap();
        // A stranger looks at the key now and then and hears of nothing: who does not pause leaves it no chance.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(peer.answer(), "counted");
    assert_eq!(
        tell_words(&address, &["GET", &counter]),
        redis::Value::BulkString((2 * TIMES).to_string().into_bytes())
    );
}
