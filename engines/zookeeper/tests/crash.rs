//! A holder that is killed, in a process of its own.

mod servers;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockhouse_core::Locks;
use lockhouse_zookeeper::ZooKeeper;
use servers::shared;

const SESSION: Duration = Duration::from_secs(4);
/// Where the holder is told to hold.
const VARIABLE: &str = "LOCKHOUSE_HOLD_AT";

async fn locks(address: &str) -> Locks {
    Locks::new(ZooKeeper::at(address).unwrap().session(SESSION).unwrap()).await.unwrap()
}

/// Not a test: what the test below starts as a separate process. It holds the lock until it is killed.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a process is told what to do by its environment")]
#[expect(clippy::print_stdout, reason = "it tells the test that it holds the lock")]
async fn holder() {
    let Ok(address) = std::env::var(VARIABLE) else { return };
    let locks = locks(&address).await;
    let _guard = locks.mutex("a").lock().await.unwrap();
    println!("\nholding");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_is_in_within_the_session_and_a_second() {
    let address = format!("{}/crash-{:08x}", shared(), rand::random::<u32>());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["holder", "--exact", "--nocapture"])
        .env(VARIABLE, &address)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "holding")), "it holds the lock");
    let locks = locks(&address).await;
    let mutex = locks.mutex("a");
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut waiter).await.is_err(), "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    let guard = tokio::time::timeout(SESSION * 3, waiter).await.expect("the session ends").unwrap();
    let waited = killed.elapsed();
    assert!(waited <= SESSION + Duration::from_secs(1), "it took {waited:?}");
    guard.release().await.unwrap();
}
