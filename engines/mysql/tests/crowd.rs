//! A thousand waiters, and a handful of connections.

mod servers;

use std::collections::HashSet;
use std::time::Duration;

use lockhouse_core::Locks;
use lockhouse_mysql::{Hold, Mysql};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use servers::{Server, plain};
use tokio::task::JoinSet;

const WAITERS: usize = 1_000;
const MOST_CONNECTIONS: usize = 8;
/// So long that nothing ends by it on a busy machine.
const LEASE: Duration = Duration::from_secs(300);

/// How many connections to that port there are. The table is not read at one moment, so one can stand in it twice.
fn connections(port: u16) -> usize {
    let (remote, established) = (format!(":{port:04X}"), "01");
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let from = |line: &str| {
        let mut words = line.split_whitespace().skip(1).map(str::to_owned);
        let (from, to, state) = (words.next()?, words.next()?, words.next()?);
        (to.ends_with(&remote) && state == established).then_some(from)
    };
    table.lines().filter_map(from).collect::<HashSet<_>>().len()
}

async fn count(observer: &mut Conn, claims: &str) -> usize {
    observer.query_first(format!("SELECT COUNT(*) FROM lockhouse_claims WHERE {claims}")).await.unwrap().unwrap()
}

async fn a_thousand_waiters(hold: Hold) {
    let server = Server::start(&[]);
    let mut observer = plain(&server.address()).await;
    let locks = Locks::new(Mysql::at(&server.address()).unwrap().hold(hold).silence(LEASE).unwrap()).await.unwrap();
    let guard = locks.mutex("a").ttl(LEASE).lock().await.unwrap();
    // All at once: a busy machine puts a hundred in line in a second, and the others have to wait for that, too.
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let mutex = locks.mutex("a").ttl(LEASE);
        waiters.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
    }
    // The observer's own is not counted.
    let mut most = 0;
    while count(&mut observer, "state = 1").await < WAITERS {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let early = waiters.try_join_next();
        assert!(early.is_none(), "a waiter ended before the lock was free: {early:?}");
        most = most.max(connections(server.port()) - 1);
    }
    guard.release().await.unwrap();
    while let Some(done) = waiters.join_next().await {
        done.unwrap();
        most = most.max(connections(server.port()) - 1);
    }
    assert!((2..=MOST_CONNECTIONS).contains(&most), "{most} connections");
    assert_eq!(count(&mut observer, "TRUE").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_need_few_connections() {
    a_thousand_waiters(Hold::Lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_do_a_thousand_who_hold_by_a_session() {
    a_thousand_waiters(Hold::Session).await;
}
