//! A thousand waiters, and a handful of connections.

mod servers;

use std::time::Duration;

use lockhouse_core::Locks;
use lockhouse_mysql::Mysql;
use servers::{Server, number};
use tokio::task::JoinSet;

const WAITERS: usize = 1_000;
const MOST_CONNECTIONS: i64 = 8;
/// So long that nothing ends by it on a busy machine.
const LEASE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_need_few_connections() {
    let server = Server::start(&[]);
    let locks = Locks::new(Mysql::at(&server.address()).unwrap()).await.unwrap();
    let guard = locks.mutex("a").ttl(LEASE).lock().await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let mutex = locks.mutex("a").ttl(LEASE);
        waiters.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
    }
    // The one that counts is not counted.
    let connections =
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = 'lockhouse' AND ID <> CONNECTION_ID()";
    let waiting = "SELECT COUNT(*) FROM lockhouse_claims WHERE state = 1";
    let mut most = 0;
    while number(&server.address(), waiting).await < WAITERS as i64 {
        most = most.max(number(&server.address(), connections).await);
    }
    for _ in 0..20 {
        most = most.max(number(&server.address(), connections).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    guard.release().await.unwrap();
    while let Some(done) = waiters.join_next().await {
        done.unwrap();
    }
    most = most.max(number(&server.address(), connections).await);
    assert!((1..=MOST_CONNECTIONS).contains(&most), "{most} connections");
    assert_eq!(number(&server.address(), "SELECT COUNT(*) FROM lockhouse_claims").await, 0);
}
