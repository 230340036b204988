//! kazoo's locks and ours on one name.
//!
//! Python's client is installed into an environment of its own below the target folder, once.

mod servers;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockhouse_core::{Guard, Locks};
use lockhouse_testkit::{Peer, eventually, python_with};
use lockhouse_zookeeper::ZooKeeper;
use servers::shared;
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, Client, CreateMode};

/// How often each side increments the counter.
const TIMES: u32 = 100;
/// Long enough for somebody who does not wait to be noticed.
const A_WHILE: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(10);

/// kazoo, connected and waiting to be told what to do.
fn peer(path: &str, kind: &str) -> Peer {
    let mut command = Command::new(python_with("kazoo", Path::new(env!("CARGO_TARGET_TMPDIR"))));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peer.py"));
    let mut peer = Peer::start(command.args([shared().trim_start_matches('/'), path, kind]));
    assert_eq!(peer.ask("hello"), "hello");
    peer
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

/// Their blocking request for the lock `a`, which is ours: it is in our line, and waits.
async fn theirs_waits(locks: &Locks, mut peer: Peer) -> JoinHandle<(Peer, String)> {
    let mut asked = tokio::task::spawn_blocking(move || {
        let answer = peer.ask("lock");
        (peer, answer)
    });
    let waits = async || locks.line("a").await.unwrap().is_some_and(|line| line.waiters().count() == 1);
    eventually(SOON, "the stranger is in our line", waits).await;
    assert!(tokio::time::timeout(A_WHILE, &mut asked).await.is_err(), "the stranger waits");
    asked
}

/// Our release, upon which the stranger who waited is let in, and lets go.
async fn theirs_is_let_in(guard: Guard, asked: JoinHandle<(Peer, String)>) -> Peer {
    guard.release().await.unwrap();
    let (mut peer, answer) = asked.await.unwrap();
    assert_eq!((answer.as_str(), peer.ask("release").as_str()), ("granted", "released"));
    peer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_readers_and_writers_wait_for_ours() {
    let (root, locks) = ours().await;
    let path = format!("{root}/a");
    let (reader, writer) = (peer(&path, "read"), peer(&path, "write"));
    let ours = locks.rwlock("a");
    let guard = ours.read().await.unwrap();
    let asked = theirs_waits(&locks, writer).await;
    let writer = theirs_is_let_in(guard, asked).await;
    for peer in [writer, reader] {
        let guard = ours.write().await.unwrap().into_guard();
        let asked = theirs_waits(&locks, peer).await;
        theirs_is_let_in(guard, asked).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_readers_and_writers_wait_for_theirs() {
    let (root, locks) = ours().await;
    let path = format!("{root}/a");
    let ours = locks.rwlock("a");
    // Each of their kinds, with those of ours that have to wait for it.
    for (kind, writes) in [("read", true), ("write", true), ("write", false)] {
        let mut peer = peer(&path, kind);
        assert_eq!(peer.ask("lock"), "granted");
        let waiter =
            async { if writes { ours.write().await.unwrap().into_guard() } else { ours.read().await.unwrap() } };
        tokio::pin!(waiter);
        assert!(tokio::time::timeout(A_WHILE, &mut waiter).await.is_err(), "their {kind} lock is held");
        assert_eq!(peer.ask("release"), "released");
        let guard = tokio::time::timeout(SOON, waiter).await.expect("told of its turn");
        guard.release().await.unwrap();
    }
}

/// A counter that only locks keep right.
struct Counter {
    plain: Client,
    path: String,
}

impl Counter {
    async fn new(root: &str) -> Self {
        let plain = Client::connect(shared().trim_start_matches('/')).await.unwrap();
        let path = format!("/counter-{}", root.trim_start_matches('/'));
        plain.create(&path, b"0", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
        Self { plain, path }
    }

    async fn value(&self) -> u32 {
        String::from_utf8(self.plain.get_data(&self.path).await.unwrap().0).unwrap().parse().unwrap()
    }

    /// Increments it under a lock: what was read is written a moment later.
    async fn increment(&self, guard: Guard) {
        let seen = self.value().await;
        tokio::time::sleep(Duration::from_micros(500)).await;
        self.plain.set_data(&self.path, (seen + 1).to_string().as_bytes(), None).await.unwrap();
        guard.release().await.unwrap();
    }
}

/// Two times a hundred increments: theirs by one kind of lock, ours by a mutex or as writers.
async fn counts(kind: &str, ours_is_mutex: bool) {
    let (root, locks) = ours().await;
    let counter = Counter::new(&root).await;
    let mut peer = peer(&format!("{root}/a"), kind);
    peer.tell(&format!("count {} {TIMES}", counter.path));
    for _ in 0..TIMES {
        let guard = if ours_is_mutex {
            locks.mutex("a").lock().await.unwrap()
        } else {
            locks.rwlock("a").write().await.unwrap().into_guard()
        };
        counter.increment(guard).await;
    }
    assert!(counter.value().await > TIMES + TIMES / 10, "they take turns");
    assert_eq!(peer.answer(), "counted");
    assert_eq!(counter.value().await, 2 * TIMES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_is_lost_between_both() {
    counts("lock", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_is_lost_between_their_writers_and_ours() {
    counts("write", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_readers_see_nothing_change_while_they_are_in() {
    let (root, locks) = ours().await;
    let counter = Counter::new(&root).await;
    let mut peer = peer(&format!("{root}/a"), "read");
    peer.tell(&format!("look {} {TIMES}", counter.path));
    for _ in 0..TIMES {
        counter.increment(locks.rwlock("a").write().await.unwrap().into_guard()).await;
    }
    let answer = peer.answer();
    assert_eq!(counter.value().await, TIMES);
    let seen: u32 = answer.strip_prefix("saw ").expect("nothing changed while they were in").parse().unwrap();
    assert!(seen > TIMES / 10, "they take turns: {seen} values");
}
