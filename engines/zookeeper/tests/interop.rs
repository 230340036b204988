//! kazoo's locks and ours on one name.
//!
//! Python's client is installed into an environment of its own below the target folder, once.

mod servers;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockhouse_core::Locks;
use lockhouse_testkit::{Peer, python_with};
use lockhouse_zookeeper::ZooKeeper;
use servers::shared;
use zookeeper_client::{Acls, Client, CreateMode};

/// kazoo, told what to do.
fn peer(path: &str, kind: &str) -> Peer {
    let mut command = Command::new(python_with("kazoo", Path::new(env!("CARGO_TARGET_TMPDIR"))));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peer.py"));
    Peer::start(command.args([shared().trim_start_matches('/'), path, kind]))
}

/// A root that no other test uses, and a client of ours below it.
async fn ours() -> (String, Locks) {
    let root = format!("/interop-{:08x}", rand::random::<u32>());
    let zookeeper = ZooKeeper::at(&format!("{}{root}", shared())).unwrap();
    let locks = Locks::new(zookeeper.session(Duration::from_secs(10)).unwrap()).await.unwrap();
    (root, locks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_waits_for_the_other() {
    let (root, locks) = ours().await;
    let mut peer = peer(&format!("{root}/a/b"), "lock");
    let mutex = locks.mutex("a/b");
    // Theirs first.
    assert_eq!(peer.ask("try"), "granted");
    assert!(mutex.try_lock().await.unwrap().is_none());
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiter).await.is_err(), "the stranger holds it");
    assert_eq!(peer.ask("release"), "released");
    let guard = tokio::time::timeout(Duration::from_secs(5), waiter).await.expect("told of its turn").unwrap();
    // Ours first.
    assert_eq!(peer.ask("try"), "refused");
    peer.tell("lock");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(locks.line("a/b").await.unwrap().expect("held").waiters().count(), 1, "the stranger is in our line");
    guard.release().await.unwrap();
    assert_eq!(peer.answer(), "granted");
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert_eq!(peer.ask("release"), "released");
    mutex.try_lock().await.unwrap().expect("it is free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_are_in_together_and_writers_alone() {
    let (root, locks) = ours().await;
    let path = format!("{root}/a");
    let (mut reader, mut writer) = (peer(&path, "read"), peer(&path, "write"));
    let ours = locks.rwlock("a");
    assert_eq!(reader.ask("try"), "granted");
    let guard = ours.try_read().await.unwrap().expect("beside their reader");
    assert!(ours.try_write().await.unwrap().is_none(), "their reader is in");
    assert_eq!(writer.ask("try"), "refused");
    assert_eq!(reader.ask("release"), "released");
    assert_eq!(writer.ask("try"), "refused");
    guard.release().await.unwrap();
    assert_eq!(writer.ask("try"), "granted");
    assert!(ours.try_read().await.unwrap().is_none() && ours.try_write().await.unwrap().is_none());
    let waiter = ours.write();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiter).await.is_err(), "their writer is in");
    assert_eq!(writer.ask("release"), "released");
    let guard = tokio::time::timeout(Duration::from_secs(5), waiter).await.expect("told of its turn").unwrap();
    assert_eq!((reader.ask("try"), writer.ask("try")), ("refused".into(), "refused".into()));
    reader.tell("lock");
    tokio::time::sleep(Duration::from_millis(300)).await;
    guard.into_guard().release().await.unwrap();
    assert_eq!(reader.answer(), "granted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_lock_can_be_seen_and_evicted() {
    let (root, locks) = ours().await;
    let mut peer = peer(&format!("{root}/a"), "lock");
    assert_eq!(peer.ask("try"), "granted");
    let line = locks.line("a").await.unwrap().expect("held");
    assert_eq!((line.places.len(), line.places[0].owner.as_str()), (1, "another program"));
    assert!(locks.evict("a", line.places[0].id).await.unwrap());
    locks.mutex("a").try_lock().await.unwrap().expect("it ended at once").release().await.unwrap();
}

/// Two times a hundred increments of a counter that is read, and written a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_is_lost_between_both() {
    const TIMES: u32 = 100;
    let (root, locks) = ours().await;
    let plain = Client::connect(shared().trim_start_matches('/')).await.unwrap();
    let counter = format!("/counter-{}", root.trim_start_matches('/'));
    plain.create(&counter, b"0", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let mut peer = peer(&format!("{root}/a"), "lock");
    peer.tell(&format!("count {counter} {TIMES}"));
    for _ in 0..TIMES {
        let guard = locks.mutex("a").lock().await.unwrap();
        let (seen, _) = plain.get_data(&counter).await.unwrap();
        let seen: u32 = String::from_utf8(seen).unwrap().parse().unwrap();
        tokio::time::sleep(Duration::from_micros(500)).await;
        plain.set_data(&counter, (seen + 1).to_string().as_bytes(), None).await.unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(peer.answer(), "counted");
    assert_eq!(plain.get_data(&counter).await.unwrap().0, (2 * TIMES).to_string().into_bytes());
}
