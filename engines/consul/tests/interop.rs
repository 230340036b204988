//! `consul lock` and ours on one name. The Go client's `Lock` is what `consul lock` uses.

mod servers;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockhouse_core::{Line, Locks};
use lockhouse_testkit::{Peer, bound};
use servers::{connector, consul, left_over, port, prefix, shared};

const LONG: Duration = Duration::from_secs(20);
const A_WHILE: Duration = Duration::from_millis(700);

/// `consul lock`, with what it does while it holds the lock.
fn lock(address: &str, name: &str, work: &str) -> Command {
    let mut command = bound(consul());
    command.args(["lock", "-pass-stdin", "-shell=false", &format!("-http-addr=127.0.0.1:{}", port(address)), name]);
    command.args(["sh", "-c", work]);
    command
}

/// `consul lock` that says when it is in, and holds the lock until it is told something.
fn peer(address: &str, name: &str) -> Peer {
    Peer::start(&mut lock(address, name, "echo in; read x"))
}

/// Waits until it has the lock.
async fn until_in(mut peer: Peer) -> Peer {
    tokio::task::spawn_blocking(move || {
        assert_eq!(peer.answer(), "in");
        peer
    })
    .await
    .unwrap()
}

/// Lets it give the lock back, and waits until it has ended.
async fn let_go(mut peer: Peer) {
    let ended = tokio::task::spawn_blocking(move || peer.ask("go"));
    assert_eq!(tokio::time::timeout(LONG, ended).await.expect("it ends").unwrap(), "");
}

async fn line(locks: &Locks) -> Line {
    locks.line("a").await.unwrap().expect("somebody is in line")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_waits_for_the_other() {
    let (address, prefix) = (shared(), prefix());
    let locks = Locks::new(connector(&address, &prefix)).await.unwrap();
    let guard = locks.mutex("a").lock().await.unwrap();
    let theirs = until_in(peer(&address, &format!("{prefix}a")));
    tokio::pin!(theirs);
    assert!(tokio::time::timeout(A_WHILE, &mut theirs).await.is_err(), "ours is held");
    let token = guard.token();
    guard.release().await.unwrap();
    let theirs = tokio::time::timeout(LONG, theirs).await.expect("their turn");
    let mutex = locks.mutex("a");
    let again = mutex.lock();
    tokio::pin!(again);
    assert!(tokio::time::timeout(A_WHILE, &mut again).await.is_err(), "theirs is held");
    assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
    let seen = line(&locks).await;
    let holder = &seen.places[0];
    assert_eq!((holder.owner.as_str(), holder.token.is_some_and(|theirs| theirs > token)), ("another program", true));
    assert_eq!(seen.waiters().count(), 1);
    let (_, guard) = tokio::join!(let_go(theirs), tokio::time::timeout(LONG, again));
    let guard = guard.expect("our turn").unwrap();
    assert!(guard.token() > holder.token.unwrap());
    guard.release().await.unwrap();
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_and_one_below_it_are_different_locks_beside_strangers_too() {
    let (address, prefix) = (shared(), prefix());
    let locks = Locks::new(connector(&address, &prefix)).await.unwrap();
    let deep = until_in(peer(&address, &format!("{prefix}a/b"))).await;
    let upper = locks.mutex("a").try_lock().await.unwrap().expect("another name");
    assert!(locks.mutex("a/b").try_lock().await.unwrap().is_none());
    let kind = locks.rwlock("a/b").try_read().await.expect_err("it is a mutex").kind();
    assert_eq!(kind, lockhouse_core::Kind::Conflict);
    upper.release().await.unwrap();
    let_go(deep).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_lock_can_be_evicted() {
    let (address, prefix) = (shared(), prefix());
    let locks = Locks::new(connector(&address, &prefix)).await.unwrap();
    let _theirs = until_in(peer(&address, &format!("{prefix}a"))).await;
    let id = line(&locks).await.places[0].id;
    assert!(locks.evict("a", id).await.unwrap());
    locks.mutex("a").try_lock().await.unwrap().expect("it ended at once").release().await.unwrap();
}

/// Adds one to a number in a file, in a way that loses updates when two do it at once.
fn increment(file: &Path) {
    let seen: u32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    std::thread::sleep(Duration::from_millis(2));
    std::fs::write(file, (seen + 1).to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_is_lost_between_both() {
    const TIMES: u32 = 100;
    let (address, prefix) = (shared(), prefix());
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("counter");
    std::fs::write(&counter, "0").unwrap();
    let (there, name, file) = (address.clone(), format!("{prefix}a"), counter.clone());
    let theirs = tokio::task::spawn_blocking(move || {
        let add = format!("n=$(cat {0}); sleep 0.002; echo $((n + 1)) >{0}", file.display());
        for _ in 0..TIMES {
            assert!(lock(&there, &name, &add).status().unwrap().success());
        }
    });
    let locks = Locks::new(connector(&address, &prefix)).await.unwrap();
    for _ in 0..TIMES {
        let guard = locks.mutex("a").lock().await.unwrap();
        increment(&counter);
        guard.release().await.unwrap();
        // So that both are at it until the end: consul takes longer to start than a lock to be taken.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    theirs.await.unwrap();
    assert_eq!(std::fs::read_to_string(&counter).unwrap().trim(), (2 * TIMES).to_string());
}
