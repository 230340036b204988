//! What the nodes of a line show, and what hand-overs cost.

mod servers;

use std::time::{Duration, Instant};

use lockhouse_core::{Checkup, Locks};
use lockhouse_testkit::eventually;
use lockhouse_zookeeper::ZooKeeper;
use servers::{Servers, shared, word};
use zookeeper_client::{Acls, Client, CreateMode};

/// A root that no other test uses.
fn root() -> String {
    format!("/line-{:08x}", rand::random::<u32>())
}

async fn locks(address: &str, root: &str) -> Locks {
    let zookeeper = ZooKeeper::at(&format!("{address}{root}")).unwrap();
    Locks::new(zookeeper.session(Duration::from_secs(10)).unwrap()).await.unwrap()
}

async fn plain() -> Client {
    Client::connect(shared().trim_start_matches('/')).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_nest_and_nodes_are_named_as_curator_names_them() {
    let (root, plain) = (root(), plain().await);
    let locks = locks(&shared(), &root).await;
    let outer = locks.mutex("a").note("outer").lock().await.unwrap();
    let inner = locks.rwlock("a/b").write().await.unwrap();
    let mut children = plain.list_children(&format!("{root}/a")).await.unwrap();
    children.sort();
    assert_eq!(children.len(), 2, "{children:?}");
    assert!(children[0].starts_with("_c_") && children[0].ends_with("-lock-0000000000"), "{children:?}");
    assert_eq!(children[1], "b");
    let writer = plain.list_children(&format!("{root}/a/b")).await.unwrap();
    assert!(writer[0].contains("-__WRIT__"), "{writer:?}");
    let (data, stat) = plain.get_data(&format!("{root}/a/{}", children[0])).await.unwrap();
    assert!(String::from_utf8(data).unwrap().ends_with("outer"));
    assert_eq!(outer.token(), u64::try_from(stat.czxid).unwrap());
    outer.release().await.unwrap();
    inner.check().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_dropped_hands_over_at_once() {
    let root = root();
    let (first, second) = (locks(&shared(), &root).await, locks(&shared(), &root).await);
    let guard = first.mutex("a").lock().await.unwrap();
    let mutex = second.mutex("a");
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut waiter).await.is_err());
    drop(guard);
    drop(first);
    let guard = tokio::time::timeout(Duration::from_secs(2), waiter).await.expect("at once").unwrap();
    drop(guard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_never_longer_than_the_session() {
    let locks = locks(&shared(), &root()).await;
    assert_eq!(locks.longest_lease(), Duration::from_secs(10));
    let guard = locks.mutex("a").ttl(Duration::from_secs(3600)).lock().await.unwrap();
    assert!(guard.valid_for() <= Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overflow_of_the_sequence_does_not_turn_the_line_around() {
    let (root, plain) = (root(), plain().await);
    let locks = locks(&shared(), &root).await;
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    // Somebody who came just before the sequence overflowed.
    let before = format!("{root}/a/_c_f1b8bd0e-6d36-4c68-9d0a-2c1d2ab7f5a0-lock-2147483647");
    plain.create(&before, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
    let after = format!("{root}/a/_c_f1b8bd0e-6d36-4c68-9d0a-2c1d2ab7f5a1-lock--2147483648");
    plain.create(&after, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
    let line = locks.line("a").await.unwrap().unwrap();
    let newest = line.places.iter().map(|place| place.token).collect::<Vec<_>>();
    assert!(newest[0].is_some() && newest[1].is_none(), "{line:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_nobody_is_in_are_cleared_away_while_locks_are_taken() {
    let servers = tokio::task::spawn_blocking(Servers::start_clearing).await.unwrap();
    let (root, plain) = (root(), Client::connect(servers.address().trim_start_matches('/')).await.unwrap());
    let locks = locks(&servers.address(), &root).await;
    let there = async |path: &str| plain.check_stat(path).await.unwrap().is_some();
    // What is held stays, and so does what is above it.
    let guard = locks.mutex("kept/a").lock().await.unwrap();
    locks.mutex("a/b/c").lock().await.unwrap().release().await.unwrap();
    let gone = async || !there(&format!("{root}/a")).await;
    eventually(Duration::from_secs(10), "the line and what is above it are gone", gone).await;
    assert!(there(&format!("{root}/kept/a")).await);
    guard.release().await.unwrap();
    eventually(Duration::from_secs(10), "and the root", async || !there(&root).await).await;
    // Taken and given back at every moment of it: with a pause in which more and more of it is gone.
    let (mut again, until) = (0, Instant::now() + Duration::from_secs(5));
    for pause in (0..8).cycle().take_while(|_| Instant::now() < until) {
        locks.mutex("a/b/c").lock().await.unwrap().release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        again += u32::from(!there(&format!("{root}/a/b/c")).await);
    }
    assert!(again > 10, "it was cleared away {again} times");
}

/// The packets that a server has received.
fn received(port: u16) -> u64 {
    let said = word(port, "srvr").unwrap();
    said.lines().find_map(|line| line.strip_prefix("Received: ")).unwrap().parse().unwrap()
}

/// The packets of ten hand-overs, with so many in line.
async fn packets(address: &str, port: u16, waiters: usize) -> u64 {
    let root = root();
    let (first, second) = (locks(address, &root).await, locks(address, &root).await);
    let mut guard = Some(first.mutex("a").lock().await.unwrap());
    let mut line = tokio::task::JoinSet::new();
    let (granted, mut turns) = tokio::sync::mpsc::unbounded_channel();
    for at in 0..waiters {
        let (mutex, granted) = (if at % 2 == 0 { &first } else { &second }.mutex("a"), granted.clone());
        line.spawn(async move {
            let guard = mutex.lock().await.unwrap();
            granted.send(guard).unwrap();
        });
    }
    let until = Instant::now() + Duration::from_secs(30);
    while first.line("a").await.unwrap().map_or(0, |line| line.waiters().count()) < waiters {
        assert!(Instant::now() < until, "they get in line");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = received(port);
    for _ in 0..10 {
        guard.take().unwrap().release().await.unwrap();
        let next = tokio::time::timeout(Duration::from_secs(5), turns.recv()).await.expect("the next is told");
        guard = next;
        assert!(turns.try_recv().is_err(), "exactly one wakes");
    }
    received(port) - before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_costs_the_same_however_many_wait() {
    // Nobody else is on this server: its counters are ours. Renewals, pings and this question are among the packets.
    let servers = tokio::task::spawn_blocking(|| Servers::start(1)).await.unwrap();
    let port: u16 = servers.address().rsplit(':').next().unwrap().parse().unwrap();
    let few = packets(&servers.address(), port, 12).await;
    let many = packets(&servers.address(), port, 200).await;
    eprintln!("ten hand-overs take {few} packets with 12 in line, and {many} with 200");
    assert!(many <= few + 40, "ten hand-overs take {few} packets with 12 in line, and {many} with 200");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_tell_the_doctor_of_themselves() {
    // One whose settings are known.
    let servers = tokio::task::spawn_blocking(|| Servers::start(1)).await.unwrap();
    let zookeeper = ZooKeeper::at(&servers.address()).unwrap().session(Duration::from_secs(100)).unwrap();
    let locks = Locks::new(zookeeper).await.unwrap();
    let checkup: Checkup = locks.checkup().await.unwrap();
    let fact = |what: &str| checkup.facts.iter().find(|fact| fact.what.ends_with(what)).map(|fact| fact.value.clone());
    assert_eq!(fact("mode").as_deref(), Some("standalone"));
    assert_eq!(fact("longest session").as_deref(), Some("10s"));
    assert_eq!(fact("members that answer").as_deref(), Some("1 of 1"));
    assert!(fact("version").unwrap().starts_with("3."));
    assert!(checkup.findings[0].what.contains("100s was asked for, and 10s"), "{:?}", checkup.findings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_tells_of_quotas_before_they_are_used_up() {
    let (root, plain) = (root(), plain().await);
    let locks = locks(&shared(), &root).await;
    let _guard = locks.mutex("a").lock().await.unwrap();
    // As setquota in zkCli.sh makes them; the server keeps the numbers.
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let quota = format!("/zookeeper/quota{root}");
    let (limits, numbers) = (format!("{quota}/zookeeper_limits"), format!("{quota}/zookeeper_stats"));
    let set = "count=10,bytes=-1=;byteHardLimit=1000000;countHardLimit=-1";
    for (path, data) in [(&quota, ""), (&limits, set), (&numbers, "count=0,bytes=0")] {
        plain.create(path, data.as_bytes(), &options).await.unwrap();
    }
    let told = async || {
        let checkup = locks.checkup().await.unwrap();
        let quotas = checkup.facts.iter().filter(|fact| fact.what == format!("quota of {root}"));
        let found = checkup.findings.iter().any(|finding| finding.what.contains("nearly used up"));
        (quotas.map(|fact| fact.value.clone()).collect::<Vec<_>>(), found)
    };
    // The root, the line and the claim.
    let (quotas, found) = told().await;
    assert!(quotas[0].starts_with("3 of 10 nodes") && quotas[1].contains(" of 1000000 bytes"), "{quotas:?}");
    assert!(!found, "{quotas:?}");
    let _more = futures_util::future::join_all(["b", "c", "d"].map(async |name| locks.mutex(name).lock().await)).await;
    let (quotas, found) = told().await;
    assert!(quotas[0].starts_with("9 of 10 nodes") && found, "{quotas:?}");
    for path in [&limits, &numbers, &quota] {
        plain.delete(path, None).await.unwrap();
    }
}
