//! What a grant costs, how long a crash is noticed, and what is left behind.

mod servers;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, Locks, Patience, Renewal, Severity, Standing, Withdrawal};
use lockhouse_etcd::Etcd;
use lockhouse_testkit::claim;
use servers::{Cluster, client, left_over, prefix, shared};
use tokio::task::JoinSet;

/// All messages that a member has received from its clients, as it counts them itself.
fn messages(cluster: &Cluster) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.members[0].port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let counts = answer.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).map(|count| count as u64).sum()
}

/// The messages for each of some grants with that many in line.
async fn messages_a_grant(waiters: usize) -> u64 {
    const GRANTS: u64 = 5;
    // A cluster for each: what those leave behind who stop waiting is not counted with others.
    let cluster = Cluster::start(1);
    let locks = Locks::new(Etcd::at(&cluster.address()).unwrap().prefix(&prefix()).unwrap()).await.unwrap();
    // So long that nobody renews, and nobody looks without being told.
    let mutex = locks.mutex("a").ttl(Duration::from_secs(600));
    let mut holder = mutex.lock().await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let mutex = locks.mutex("a").ttl(Duration::from_secs(600));
        waiting.spawn(async move { mutex.lock().await.unwrap() });
    }
    while locks.line("a").await.unwrap().unwrap().waiters().count() != waiters {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = messages(&cluster);
    for _ in 0..GRANTS {
        holder.release().await.unwrap();
        let granted = tokio::time::timeout(Duration::from_secs(10), waiting.join_next()).await;
        holder = granted.expect("somebody gets in").unwrap().unwrap();
        let another = tokio::time::timeout(Duration::from_millis(20), waiting.join_next()).await;
        assert!(another.is_err(), "two got in");
    }
    (messages(&cluster) - before) / GRANTS
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_one_however_many_wait() {
    let few = messages_a_grant(10).await;
    let many = messages_a_grant(200).await;
    eprintln!("{few} messages for a grant with 10 in line, {many} with 200");
    assert!(few <= 8, "{few} messages for one grant");
    assert!(many <= few + 1, "{many} messages for a grant with 200 in line, {few} with 10");
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
    let before = messages(&cluster);
    lock(Patience::Waits).await;
    lock(Patience::None).await;
    assert_eq!(messages(&cluster) - before, 4);
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
async fn doctor_says_when_the_quota_is_nearly_used_up() {
    let cluster = Cluster::start_with(1, None, &[("quota-backend-bytes", "20000")]);
    let client = client(&cluster.address(), "").await;
    let checkup = client.front.checkup().await.unwrap();
    assert!(checkup.findings.iter().any(|found| found.what.contains("of its quota")), "{checkup:?}");
}
