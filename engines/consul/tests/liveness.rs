//! What a grant costs in requests, counted on their way to the agent.

mod servers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockhouse_consul::Consul;
use lockhouse_core::{Claim, Locks, Patience, Standing};
use lockhouse_testkit::{Sides, claim};
use servers::{Cluster, prefix};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Counts the requests that pass through it.
#[derive(Debug)]
struct Counter {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Counter {
    async fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let (mut tasks, count) = (JoinSet::new(), Arc::clone(&requests));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                connections.spawn(pass(client, server, Arc::clone(&count)));
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn consul(&self, prefix: &str) -> Consul {
        // So long that nobody renews, and nobody looks without being told.
        let session = Duration::from_secs(3600);
        Consul::at(&format!("//{}", self.address)).unwrap().session(session).unwrap().prefix(prefix).unwrap()
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, count: Arc<AtomicU64>) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
    let requests = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
            // One connection has one request at a time, and its head fits into a segment.
            if [&b"GET /"[..], b"PUT /"].iter().any(|begin| bytes[..read].starts_with(begin)) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            if to_server.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}

/// The requests for each of some grants of a semaphore with so many permits, with that many in line by turns from that
/// many clients. A semaphore of one permit is a mutex.
async fn requests_a_grant(cluster: &Cluster, permits: u32, clients: usize, waiters: usize) -> u64 {
    const GRANTS: u64 = 8;
    let counter = Counter::before(cluster.members[0].port).await;
    let (prefix, ttl) = (prefix(), Duration::from_secs(2400));
    let mut all = Vec::new();
    for _ in 0..clients {
        all.push(Locks::new(counter.consul(&prefix)).await.unwrap());
    }
    let mut holders = Vec::new();
    for _ in 0..permits {
        holders.push(all[0].semaphore("a", permits).ttl(ttl).acquire(1).await.unwrap());
    }
    let mut waiting = JoinSet::new();
    for at in 0..waiters {
        let semaphore = all[at % clients].semaphore("a", permits).ttl(ttl);
        waiting.spawn(async move { semaphore.acquire(1).await.unwrap() });
        // One after the other: each opens connections, through a counter that is one task.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while all[0].line("a").await.unwrap().unwrap().waiters().count() != waiters {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut before = 0;
    while before != counter.requests() {
        // All of them are settled when nobody has asked for a while.
        before = counter.requests();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    for _ in 0..GRANTS {
        // The last that got in: more of those who wait have it just ahead than any other.
        holders.pop().unwrap().release().await.unwrap();
        let granted = tokio::time::timeout(Duration::from_secs(10), waiting.join_next()).await;
        holders.push(granted.expect("somebody gets in").unwrap().unwrap());
        let another = tokio::time::timeout(Duration::from_millis(50), waiting.join_next()).await;
        assert!(another.is_err(), "two got in");
    }
    let cost = (counter.requests() - before).div_ceil(GRANTS);
    // The clients are dropped, not closed: a waiter that was just asking is looked for until its lease is over.
    waiting.shutdown().await;
    cost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_one_however_many_wait() {
    let cluster = Cluster::start(1);
    let few = requests_a_grant(&cluster, 1, 10, 10).await;
    let many = requests_a_grant(&cluster, 1, 20, 200).await;
    let here = requests_a_grant(&cluster, 1, 1, 200).await;
    eprintln!("requests for a grant: {few} with 10 in line, {many} with 200 of 20 clients, {here} with 200 of one");
    assert!(few <= 4, "{few} requests for one grant");
    assert!(many <= few + 2, "{many} requests for a grant with 200 in line, {few} with 10");
    assert!(here <= 3, "{here} requests for a grant among the claims of one client");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_that_is_given_back_wakes_a_few_however_many_wait() {
    let cluster = Cluster::start(1);
    let few = requests_a_grant(&cluster, 3, 20, 20).await;
    let many = requests_a_grant(&cluster, 3, 20, 200).await;
    let here = requests_a_grant(&cluster, 3, 1, 200).await;
    eprintln!("requests for a permit: {few} with 20 in line, {many} with 200 of 20 clients, {here} with 200 of one");
    // It is just ahead of three, who look at the line, and each of them waits for one more than before.
    assert!(few <= 10, "{few} requests for one permit");
    assert!(many <= few + 2, "{many} requests for a permit with 200 in line, {few} with 20");
    assert!(here <= 6, "{here} requests for a permit among the claims of one client");
}

#[tokio::test]
async fn an_uncontended_pair_is_two_requests() {
    let cluster = Cluster::start(1);
    let counter = Counter::before(cluster.members[0].port).await;
    let client = Sides::of(&counter.consul("")).await;
    let before = counter.requests();
    for patience in [Patience::Waits, Patience::None] {
        let claim = Claim { patience, ..claim("a") };
        assert!(matches!(client.front.claim(&claim).await.unwrap(), Standing::Granted { .. }));
        client.front.withdraw(&claim).await.unwrap();
    }
    assert_eq!(counter.requests() - before, 4);
}
