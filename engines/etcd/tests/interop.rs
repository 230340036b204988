//! `etcdctl lock` and ours on one name. Go's `concurrency.Mutex` is what etcdctl uses.

mod servers;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use lockhouse_core::{Line, Locks};
use lockhouse_etcd::Etcd;
use rustix::process::{Pid, Signal, kill_process};
use servers::{ctl, left_over, prefix, shared};

/// `etcdctl lock` without a command: it holds the lock until it is interrupted.
#[derive(Debug)]
struct Peer(Child);

impl Peer {
    /// Starts to wait for the lock.
    fn start(address: &str, name: &str) -> Self {
        Self(lockhouse_testkit::spawn(ctl(address, &["lock", "--ttl=3", name])))
    }

    /// Waits until it has the lock, and says so by showing its key.
    fn until_in(&mut self) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains('/'), "{line}");
    }

    /// Interrupts it, and waits until it has released the lock.
    fn let_go(mut self) {
        kill_process(Pid::from_raw(self.0.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn ours(address: &str, prefix: &str) -> Locks {
    Locks::new(Etcd::at(address).unwrap().prefix(prefix).unwrap()).await.unwrap()
}

async fn line(locks: &Locks) -> Line {
    locks.line("a").await.unwrap().expect("somebody is in line")
}

async fn until_waiting(locks: &Locks, waiters: usize) {
    let waiting = async {
        while line(locks).await.waiters().count() != waiters {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it gets in line");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_waits_for_the_other() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let guard = locks.mutex("a").lock().await.unwrap();
    let mut peer = Peer::start(&address, &format!("{prefix}a"));
    until_waiting(&locks, 1).await;
    let mutex = locks.mutex("a");
    let again = mutex.lock();
    tokio::pin!(again);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut again).await.is_err(), "ours is held");
    until_waiting(&locks, 2).await;
    let token = guard.token();
    guard.release().await.unwrap();
    peer.until_in();
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut again).await.is_err(), "theirs comes first");
    assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
    let holder = line(&locks).await.places[0].clone();
    assert_eq!((holder.owner.as_str(), holder.token.is_some_and(|theirs| theirs > token)), ("another program", true));
    peer.let_go();
    let guard = tokio::time::timeout(Duration::from_secs(10), again).await.expect("our turn").unwrap();
    assert!(guard.token() > holder.token.unwrap());
    guard.release().await.unwrap();
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_and_one_below_it_are_different_locks_beside_strangers_too() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let mut deep = Peer::start(&address, &format!("{prefix}a/b"));
    deep.until_in();
    let upper = locks.mutex("a").try_lock().await.unwrap().expect("another name");
    let waiting = locks.mutex("a").wait(Duration::from_secs(1)).lock_in_time().await.unwrap();
    assert!(waiting.is_none(), "it is held");
    assert!(locks.mutex("a/b").try_lock().await.unwrap().is_none());
    assert!(locks.rwlock("c").try_read().await.unwrap().is_some());
    upper.release().await.unwrap();
    let upper = locks.mutex("a").lock().await.expect("nobody is there but on a longer name");
    upper.release().await.unwrap();
    deep.let_go();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_lock_can_be_evicted() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let mut peer = Peer::start(&address, &format!("{prefix}a"));
    peer.until_in();
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
            let mut command: Command = ctl(&there, &["lock", &name, "--", "sh", "-c", &add]);
            assert!(command.status().unwrap().success());
        }
    });
    let locks = ours(&address, &prefix).await;
    for _ in 0..TIMES {
        let guard = locks.mutex("a").lock().await.unwrap();
        increment(&counter);
        guard.release().await.unwrap();
        // So that both are at it until the end: etcdctl takes longer to start than a lock to be taken.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    theirs.await.unwrap();
    assert_eq!(std::fs::read_to_string(&counter).unwrap().trim(), (2 * TIMES).to_string());
}
