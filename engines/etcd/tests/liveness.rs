//! What a grant costs, how long a crash is noticed, and what is left behind.

mod servers;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, Locks, Patience, Renewal, Severity, Standing, Withdrawal};
use lockhouse_etcd::Etcd;
use lockhouse_testkit::claim;
use servers::{Cluster, client, etcdctl, left_over, prefix, shared};
use tokio::task::JoinSet;

/// All messages that a member has received from its clients, or sent to them, as it counts them itself.
fn messages(cluster: &Cluster, way: &str) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.members[0].port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let counter = format!("grpc_server_msg_{way}_total{{");
    let counts = answer.lines().filter(|line| line.starts_with(&counter));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).map(|count| count as u64).sum()
}

/// The messages that a member receives and sends for each of some grants of so many permits, with that many in line.
async fn messages_a_grant(permits: u32, waiters: usize) -> [u64; 2] {
    const GRANTS: u64 = 5;
    // A cluster for each: what those leave behind who stop waiting is not counted with others.
    let cluster = Cluster::start(1);
    let locks = Locks::new(Etcd::at(&cluster.address()).unwrap().prefix(&prefix()).unwrap()).await.unwrap();
    // So long that nobody renews, and nobody looks without being told.
    let semaphore = || locks.semaphore("a", permits).ttl(Duration::from_secs(600));
    let mut holders = Vec::new();
    for _ in 0..permits {
        holders.push(semaphore().acquire(1).await.unwrap());
    }
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let semaphore = semaphore();
        waiting.spawn(async move { semaphore.acquire(1).await.unwrap() });
    }
    while locks.line("a").await.unwrap().unwrap().waiters().count() != waiters {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let count = || ["received", "sent"].map(|way| messages(&cluster, way));
    let before = count();
    for _ in 0..GRANTS {
        // The last one that got in is the one whom most wait for.
        holders.pop().expect("somebody holds").release().await.unwrap();
        let granted = tokio::time::timeout(Duration::from_secs(10), waiting.join_next()).await;
        holders.push(granted.expect("somebody gets in").unwrap().unwrap());
        let another = tokio::time::timeout(Duration::from_millis(50), waiting.join_next()).await;
        assert!(another.is_err(), "two got in");
    }
    let after = count();
    [0, 1].map(|way| (after[way] - before[way]) / GRANTS)
}

/// A grant costs the same, and no more than so many messages each way, however many wait.
async fn a_grant_costs_the_same(permits: u32, most: u64) {
    let few = messages_a_grant(permits, 10).await;
    let many = messages_a_grant(permits, 200).await;
    eprintln!("received and sent for a grant: {few:?} with 10 in line, {many:?} with 200");
    assert!(few.iter().all(|few| *few <= most), "{few:?} messages for one grant");
    let grown = few.iter().zip(&many).any(|(few, many)| *many > few + 1);
    assert!(!grown, "{many:?} messages for a grant with 200 in line, {few:?} with 10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_one_however_many_wait() {
    // A semaphore of one permit is a mutex.
    a_grant_costs_the_same(1, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_that_is_given_back_concerns_few_however_many_wait() {
    // Up to three wait for the same one, and each watches three.
    a_grant_costs_the_same(3, 32).await;
}

#[tokio::test]
async fn a_holder_that_is_heard_of_no_more_is_out_a_second_after_its_lease() {
    let (address, prefix) = (shared(), prefix());
    let ttl = Duration::from_secs(2);
    let (gone, next) = (client(&address, &prefix).await, client(&address, &prefix).await);
    let first = Claim { ttl, ..claim("a") };
    let started = Instant::now();
    assert!(matches!(gone.front.claim(&first).await.unwrap(), Standing::Granted { .. }));
    drop(gone);
    let second = claim("a");
    while !matches!(next.front.claim(&second).await.unwrap(), Standing::Granted { .. }) {
        tokio::time::timeout(Duration::from_secs(10), next.front.moved(&second)).await.expect("in time").unwrap();
    }
    let taken = started.elapsed();
    assert!(taken >= ttl.mul_f64(0.98), "free after {taken:?}, before its lease was over");
    assert!(taken <= ttl + Duration::from_millis(1500), "free after {taken:?}");
    next.front.withdraw(&second).await.unwrap();
}

#[tokio::test]
async fn what_nobody_wants_any_more_goes_although_its_lease_is_kept() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    let ttl = Duration::from_secs(2);
    let (kept, forgotten) = (Claim { ttl, ..claim("kept") }, Claim { ttl, ..claim("forgotten") });
    for claim in [&kept, &forgotten] {
        assert!(matches!(client.front.claim(claim).await.unwrap(), Standing::Granted { .. }));
    }
    // One of two claims with the same lease is renewed, the other is not.
    for _ in 0..14 {
        tokio::time::sleep(ttl / 4).await;
        assert_eq!(client.keeper.renew(std::slice::from_ref(&kept)).await.unwrap(), [Renewal::Renewed]);
    }
    let left = left_over(&address, &prefix);
    assert!(left.len() == 1 && left[0].contains("kept"), "{left:?}");
    assert_eq!(client.front.withdraw(&forgotten).await.unwrap(), Withdrawal::NotThere);
    assert_eq!(client.front.withdraw(&kept).await.unwrap(), Withdrawal::Withdrawn);
}

#[tokio::test]
async fn an_uncontended_pair_is_one_transaction_and_one_deletion() {
    let cluster = Cluster::start(1);
    let client = client(&cluster.address(), "").await;
    let lock = async |patience| {
        // A lease that is not kept alive anew for seconds, since it lasts for minutes.
        let claim = Claim { patience, ttl: Duration::from_secs(600), ..claim("a") };
        assert!(matches!(client.front.claim(&claim).await.unwrap(), Standing::Granted { .. }));
        client.front.withdraw(&claim).await.unwrap();
    };
    lock(Patience::Waits).await;
    let before = messages(&cluster, "received");
    lock(Patience::Waits).await;
    lock(Patience::None).await;
    assert_eq!(messages(&cluster, "received") - before, 4);
}

#[tokio::test]
async fn doctor_hears_of_members_and_of_old_versions() {
    let client = client(&shared(), "").await;
    let checkup = client.front.checkup().await.unwrap();
    let fact = |what: &str| checkup.facts.iter().find(|fact| fact.what.starts_with(what)).expect("told").value.clone();
    assert!(fact("member ").starts_with("etcd 3."), "{checkup:?}");
    assert_eq!(fact("leader"), "e0");
    assert!(fact("members").starts_with("1: "), "{checkup:?}");
    assert!(fact("member ").ends_with(" of 2048 MiB"), "{checkup:?}");
    let bugs = checkup.findings.iter().filter(|found| found.what.starts_with("etcd 3.4.23:"));
    let bugs: Vec<(Severity, &str)> = bugs.map(|found| (found.severity, found.change.as_str())).collect();
    let (danger, advice) = (Severity::Danger, Severity::Advice);
    let known = [danger, danger, danger, advice].map(|severity| (severity, "upgrade to 3.4.42 or newer"));
    assert!(bugs == known || !fact("member ").contains("3.4.23"), "{checkup:?}");
}

#[tokio::test]
async fn doctor_says_what_the_shortest_lease_is_and_when_it_is_long() {
    for (settings, shortest, long) in [(&[][..], "2s", false), (&[("election-timeout", "3000")][..], "5s", true)] {
        let cluster = Cluster::start_with(1, None, settings);
        let client = client(&cluster.address(), "").await;
        let checkup = client.front.checkup().await.unwrap();
        let told = checkup.facts.iter().find(|fact| fact.what == "shortest lease").map(|fact| fact.value.as_str());
        assert_eq!(told, Some(shortest), "{checkup:?}");
        let advised = checkup.findings.iter().any(|found| found.what.contains("no lease is shorter than"));
        assert_eq!(advised, long, "{checkup:?}");
        let left = etcdctl(&cluster.address(), &["lease", "list"]);
        assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "found 0 leases");
    }
}

#[tokio::test]
async fn doctor_says_when_the_quota_is_nearly_used_up() {
    let cluster = Cluster::start_with(1, None, &[("quota-backend-bytes", "20000")]);
    let client = client(&cluster.address(), "").await;
    let checkup = client.front.checkup().await.unwrap();
    assert!(checkup.findings.iter().any(|found| found.what.contains("of its quota")), "{checkup:?}");
}
