//! A holder that is killed, in a process of its own.

mod servers;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockhouse_core::Locks;
use lockhouse_etcd::Etcd;
use servers::{prefix, shared};

/// The locks' TTL, and etcd's lease for it: etcd counts in whole seconds.
const TTL: Duration = Duration::from_millis(2500);
const LEASE: Duration = Duration::from_secs(3);
/// What the holder is told: the address, and the prefix behind a space.
const VARIABLE: &str = "LOCKHOUSE_HOLD_AT";

async fn locks(told: &str) -> Locks {
    let (address, prefix) = told.split_once(' ').unwrap();
    Locks::new(Etcd::at(address).unwrap().prefix(prefix).unwrap()).await.unwrap()
}

/// Not a test: what the test below starts as a separate process. It holds the lock until it is killed.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a process is told what to do by its environment")]
#[expect(clippy::print_stdout, reason = "it tells the test that it holds the lock")]
async fn holder() {
    let Ok(told) = std::env::var(VARIABLE) else { return };
    let locks = locks(&told).await;
    let _guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    println!("\nholding");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_is_in_within_the_lease_and_a_second() {
    let told = format!("{} {}", shared(), prefix());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["holder", "--exact", "--nocapture"])
        .env(VARIABLE, &told)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "holding")), "it holds the lock");
    let locks = locks(&told).await;
    let mutex = locks.mutex("a").ttl(TTL);
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(LEASE, &mut waiter).await.is_err(), "it lives, and renews");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    let guard = tokio::time::timeout(LEASE * 3, waiter).await.expect("its lease ends").unwrap();
    let waited = killed.elapsed();
    assert!(waited <= LEASE + Duration::from_secs(1), "it took {waited:?}");
    guard.release().await.unwrap();
}
