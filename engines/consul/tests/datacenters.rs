//! Locks in another datacenter than the agent's.

mod servers;

use std::time::{Duration, Instant};

use lockhouse_core::{Kind, Locks};
use lockhouse_testkit::{Sides, free_port};
use servers::{Cluster, connector, http, left_over, port, prefix};

const LONG: Duration = Duration::from_secs(20);

/// A server of each of two datacenters that know each other.
async fn two() -> [Cluster; 2] {
    let ports = [free_port(), free_port()];
    let settings = |at: usize| {
        [
            format!("-datacenter=dc{}", at + 1),
            format!("-node=n{}", at + 1),
            format!("-serf-wan-port={}", ports[at]),
            format!("-retry-join-wan=127.0.0.1:{}", ports[1 - at]),
            "-retry-interval-wan=1s".to_owned(),
        ]
    };
    let [first, second] = [settings(0), settings(1)];
    tokio::task::spawn_blocking(move || {
        let clusters = [Cluster::start_with(1, &first), Cluster::start_with(1, &second)];
        let joined = |cluster: &Cluster| {
            let known = http(cluster.members[0].port, "GET", "/v1/catalog/datacenters", "");
            known.is_some_and(|(_, known)| known.contains("dc1") && known.contains("dc2"))
        };
        assert!(clusters.iter().all(|cluster| cluster.members[0].program.answers(LONG, || joined(cluster))));
        clusters
    })
    .await
    .unwrap()
}

/// The nodes that clients of ours have their sessions at.
fn nodes(address: &str) -> Vec<String> {
    let (_, sessions) = http(port(address), "GET", "/v1/session/list", "").unwrap();
    let sessions: Vec<serde_json::Value> = serde_json::from_str(&sessions).unwrap();
    let ours = sessions.iter().filter(|session| session["Name"].as_str().unwrap().starts_with("lockhouse"));
    ours.map(|session| session["Node"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_lives_in_the_datacenter_that_was_asked_for() {
    let clusters = two().await;
    let ([here, there], prefix) = ([clusters[0].address(), clusters[1].address()], prefix());
    let through = Locks::new(connector(&here, &prefix).datacenter("dc2")).await.unwrap();
    let guard = through.mutex("a").lock().await.unwrap();
    assert_eq!((left_over(&here, &prefix), left_over(&there, &prefix)), (vec![], vec![format!("{prefix}a/.lock")]));
    assert_eq!((nodes(&here), nodes(&there)), (vec![], vec!["n2".to_owned()]));
    let at_home = Locks::new(connector(&here, &prefix).datacenter("dc1")).await.unwrap();
    at_home.mutex("a").try_lock().await.unwrap().expect("another lock").release().await.unwrap();
    assert_eq!(nodes(&here), ["n1"], "the agent's own");
    // Both ways to the same lock exclude each other, and tell each other.
    let direct = Locks::new(connector(&there, &prefix)).await.unwrap();
    assert!(direct.mutex("a").try_lock().await.unwrap().is_none());
    let mutex = direct.mutex("a");
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(servers::SESSION, &mut waiter).await.is_err(), "it is held");
    guard.check().expect("it is renewed");
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(LONG, waiter).await.expect("its turn").unwrap();
    let mutex = through.mutex("a");
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut waiter).await.is_err(), "it is held");
    guard.release().await.unwrap();
    tokio::time::timeout(LONG, waiter).await.expect("its turn").unwrap().release().await.unwrap();
    assert_eq!(left_over(&there, &prefix), [""; 0]);
    let engine = Sides::of(&connector(&here, &prefix).datacenter("dc2")).await.front;
    let checkup = engine.checkup().await.unwrap();
    let facts: Vec<_> = checkup.facts.iter().map(|fact| (fact.what.as_str(), fact.value.as_str())).collect();
    assert!(facts.contains(&("datacenter", "dc2, through an agent of dc1")), "{facts:?}");
    assert!(facts.iter().any(|(what, _)| *what == "server n2"), "{facts:?}");
}

#[tokio::test]
async fn a_datacenter_that_is_not_known_is_told_at_once() {
    let begun = Instant::now();
    let error = Locks::new(connector(&servers::shared(), "").datacenter("atlantis")).await.unwrap_err();
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("datacenter") && error.to_string().contains("?dc="), "{error}");
}
