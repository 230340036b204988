//! What the suite does not ask of an ensemble: a follower that is killed, a majority that comes back, and what the
//! doctor hears of all that.

mod servers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_consul::Consul;
use lockhouse_core::{Checkup, Locks, Loss};
use lockhouse_testkit::Sides;
use rustix::process::Signal;
use servers::{Cluster, http};

const SESSION: Duration = Duration::from_secs(12);
const LEASE: Duration = Duration::from_secs(9);

async fn three() -> Arc<Cluster> {
    Arc::new(tokio::task::spawn_blocking(|| Cluster::start(3)).await.unwrap())
}

/// Its session belongs to a node that stays: servers that are dead for long are taken out of the catalog.
async fn client(cluster: &Cluster) -> Locks {
    let node = r#"{"Node": "locks", "Address": "127.0.0.1"}"#;
    assert_eq!(http(cluster.members[0].port, "PUT", "/v1/catalog/register", node).unwrap().0, 200);
    let consul = Consul::at(&cluster.address()).unwrap().session(SESSION).unwrap().node("locks");
    Locks::new(consul).await.unwrap()
}

async fn act<T: Send + 'static>(cluster: &Arc<Cluster>, act: impl FnOnce(&Cluster) -> T + Send + 'static) -> T {
    let cluster = Arc::clone(cluster);
    tokio::task::spawn_blocking(move || act(&cluster)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_that_are_killed_or_stand_still_cost_nothing() {
    let cluster = three().await;
    // Each client begins with an agent by chance: some of them with the one that fails.
    let mut guards = Vec::new();
    for at in 0..6 {
        let locks = client(&cluster).await;
        let guard = locks.mutex(format!("{at}")).ttl(LEASE).lock().await.unwrap();
        guards.push((locks, guard));
    }
    for signal in [Signal::KILL, Signal::STOP] {
        let leader = act(&cluster, Cluster::leader).await;
        cluster.members[(leader + 1) % 3].program.signal(signal);
        for _ in 0..4 {
            tokio::time::sleep(LEASE / 3).await;
            guards.iter().for_each(|(_, guard)| guard.check().expect("no false loss"));
        }
        for (at, (locks, _)) in guards.iter().enumerate() {
            let other = locks.mutex(format!("other {at}")).ttl(LEASE).lock().await.unwrap();
            other.release().await.unwrap();
        }
        act(&cluster, Cluster::restore).await;
    }
    for (_, guard) in guards {
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_comes_back_serves_who_waited() {
    let cluster = three().await;
    let (a, b) = (client(&cluster).await, client(&cluster).await);
    let guard = a.mutex("a").ttl(LEASE).lock().await.unwrap();
    let token = guard.token();
    let leader = act(&cluster, Cluster::leader).await;
    let begun = Instant::now();
    for member in [leader, (leader + 1) % 3] {
        cluster.members[member].program.kill();
    }
    let loss = tokio::time::timeout(SESSION, guard.lost()).await.expect("told before the session can end");
    assert!(begun.elapsed() < LEASE, "told after {:?}, when the lease was over", begun.elapsed());
    assert_eq!(loss, Loss::Expired);
    assert!(b.mutex("a").ttl(LEASE).try_lock().await.is_err(), "nobody can promise anything");
    act(&cluster, Cluster::restore).await;
    // The servers count the sessions anew from their election, as they must.
    let next = async {
        loop {
            match b.mutex("a").ttl(LEASE).lock().await {
                Ok(guard) => return guard,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    };
    let next = tokio::time::timeout(SESSION * 4, next).await.expect("in time");
    assert!(next.token() > token);
    next.release().await.unwrap();
}

/// What is told of each server, in the order of their names.
fn parts(checkup: &Checkup) -> Vec<&str> {
    let about = |fact: &&lockhouse_core::Fact| (0..3).any(|at| fact.what == format!("server c{at}"));
    checkup.facts.iter().filter(about).map(|fact| fact.value.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_the_servers_their_leader_and_one_that_was_killed() {
    let cluster = three().await;
    let consul = Consul::at(&cluster.address()).unwrap().session(SESSION).unwrap();
    let engine = Sides::of(&consul).await.front;
    let leader = act(&cluster, Cluster::leader).await;
    // The leader knows how its servers are when it has looked at them, which it does every other second.
    let mut checkup = engine.checkup().await.unwrap();
    for _ in 0..100 {
        if parts(&checkup).len() == 3 && !checkup.findings.iter().any(|finding| finding.what.contains("fails")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        checkup = engine.checkup().await.unwrap();
    }
    let led: Vec<bool> = parts(&checkup).iter().map(|part| part.ends_with("leads")).collect();
    assert_eq!(led, (0..3).map(|at| at == leader).collect::<Vec<_>>(), "{checkup:?}");
    assert!(parts(&checkup).iter().all(|part| part.starts_with("Consul 1.")), "{checkup:?}");

    let killed = (leader + 1) % 3;
    act(&cluster, move |cluster| cluster.members[killed].program.kill()).await;
    let named = format!("the server c{killed} fails");
    // Some seconds later autopilot takes it out, and there are two servers.
    for _ in 0..100 {
        let findings = engine.checkup().await.unwrap().findings;
        if findings.iter().any(|finding| finding.what.starts_with(&named)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody says that {named}");
}
