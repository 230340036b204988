//! A holder that is killed, and one that ends in an orderly way.

mod servers;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockhouse_core::Locks;
use servers::{connector, left_over, port, prefix, shared};

/// What Consul gives a session that is not renewed: twice its time.
const FREE: Duration = servers::SESSION.saturating_mul(2);
/// Where the holder is told to hold.
const VARIABLE: &str = "LOCKHOUSE_HOLD_AT";

/// Not a test: what the test below starts as a separate process. It holds the lock until it is killed.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a process is told what to do by its environment")]
#[expect(clippy::print_stdout, reason = "it tells the test that it holds the lock")]
async fn holder() {
    let Ok(told) = std::env::var(VARIABLE) else { return };
    let (address, prefix) = told.split_once(' ').unwrap();
    let locks = Locks::new(connector(address, prefix)).await.unwrap();
    let _guard = locks.mutex("a").lock().await.unwrap();
    println!("\nholding");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_is_in_within_twice_the_session_and_a_second() {
    let (address, prefix) = (shared(), prefix());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["holder", "--exact", "--nocapture"])
        .env(VARIABLE, format!("{address} {prefix}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "holding")), "it holds the lock");
    let locks = Locks::new(connector(&address, &prefix)).await.unwrap();
    let mutex = locks.mutex("a");
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut waiter).await.is_err(), "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    let guard = tokio::time::timeout(FREE * 3, waiter).await.expect("the session ends").unwrap();
    let waited = killed.elapsed();
    eprintln!("free {waited:?} after the kill");
    assert!(waited <= FREE + Duration::from_secs(1), "it took {waited:?}");
    guard.release().await.unwrap();
}

/// The sessions that clients of ours have there.
fn sessions(address: &str) -> Vec<String> {
    let (status, body) = servers::http(port(address), "GET", "/v1/session/list", "").expect("an answer");
    assert_eq!(status, 200);
    let all: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
    let ours = all.iter().filter(|session| session["Name"].as_str().unwrap().starts_with("lockhouse"));
    ours.map(|session| session["ID"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_closed_hands_over_at_once_and_leaves_no_session() {
    let cluster = servers::Cluster::start(1);
    let (address, prefix) = (cluster.address(), prefix());
    let first = Locks::new(connector(&address, &prefix)).await.unwrap();
    let second = Locks::new(connector(&address, &prefix)).await.unwrap();
    assert_eq!(sessions(&address).len(), 2);
    let guard = first.mutex("a").lock().await.unwrap();
    let mutex = second.mutex("a");
    let mut waiter = Box::pin(async move { mutex.lock().await });
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiter).await.is_err(), "it is held");
    drop(guard);
    first.close(Duration::from_secs(5)).await.unwrap();
    let guard = tokio::time::timeout(Duration::from_secs(2), waiter).await.expect("at once").unwrap();
    guard.release().await.unwrap();
    second.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(left_over(&address, &prefix), [""; 0]);
    for _ in 0..40 {
        if sessions(&address).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("sessions were left behind: {:?}", sessions(&address));
}
