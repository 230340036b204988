//! Members of an ensemble that come and go while a lock is held.

mod servers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_core::{Checkup, Locks, Loss};
use lockhouse_testkit::eventually;
use servers::Servers;
use servers::subject::connector;

/// Longer than an election on a busy machine.
const SESSION: Duration = Duration::from_secs(20);

async fn act(servers: &Arc<Servers>, act: impl FnOnce(&Servers) + Send + 'static) {
    let servers = Arc::clone(servers);
    tokio::task::spawn_blocking(move || act(&servers)).await.unwrap();
}

async fn three() -> (Arc<Servers>, Locks, Locks) {
    let servers = Arc::new(tokio::task::spawn_blocking(|| Servers::start(3)).await.unwrap());
    let client = async || Locks::new(connector(&servers.address(), SESSION)).await.unwrap();
    let (first, second) = (client().await, client().await);
    (Arc::clone(&servers), first, second)
}

/// Waits until a renewal has been confirmed that was sent from now on.
async fn renewed(guard: &lockhouse_core::Guard) {
    let until = Instant::now() + SESSION;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut before = guard.valid_for();
    while guard.valid_for() <= before {
        before = guard.valid_for();
        assert!(Instant::now() < until, "the lock is renewed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guard.check().expect("no false loss");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_killed_costs_nothing() {
    let (servers, first, second) = three().await;
    let guard = first.mutex("a").lock().await.unwrap();
    for _ in 0..2 {
        act(&servers, Servers::kill_follower).await;
        renewed(&guard).await;
        assert!(second.mutex("a").wait(Duration::from_millis(300)).lock().await.is_err(), "it is held");
        act(&servers, Servers::restore).await;
    }
    guard.release().await.unwrap();
    drop(second.mutex("a").lock().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stood_still_does_not_give_the_lock_away_when_it_goes_on() {
    let (servers, first, second) = three().await;
    let guard = first.mutex("a").lock().await.unwrap();
    let token = guard.token();
    act(&servers, Servers::pause_leader).await;
    renewed(&guard).await;
    act(&servers, Servers::restore).await;
    renewed(&guard).await;
    assert!(second.mutex("a").wait(Duration::from_millis(300)).lock().await.is_err(), "it is held");
    guard.release().await.unwrap();
    assert!(second.mutex("a").lock().await.unwrap().token() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_comes_back_is_worked_with_again() {
    let (servers, first, second) = three().await;
    let ttl = Duration::from_secs(6);
    let guard = first.mutex("a").ttl(ttl).lock().await.unwrap();
    act(&servers, Servers::kill_majority).await;
    let loss = tokio::time::timeout(ttl, guard.lost()).await.expect("told before its lease is over");
    assert_eq!(loss, Loss::Expired);
    act(&servers, Servers::restore).await;
    drop(guard);
    for locks in [&first, &second] {
        let until = Instant::now() + Duration::from_secs(30);
        let guard = loop {
            match locks.mutex("a").lock().await {
                Ok(guard) => break guard,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
        };
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_shows_the_members_who_leads_and_who_is_down() {
    let servers = Arc::new(tokio::task::spawn_blocking(|| Servers::start(3)).await.unwrap());
    let hosts: Vec<String> = servers.address().trim_start_matches('/').split(',').map(str::to_owned).collect();
    // The address of one is enough to be shown all.
    let one = Locks::new(connector(&format!("//{}", hosts[0]), SESSION)).await.unwrap();
    let checkup = one.checkup().await.unwrap();
    assert!(fact(&checkup, "members").starts_with("3: server.1="), "{checkup:?}");
    assert!(found(&checkup, "the address names 1 of 3 members"), "{checkup:?}");
    let all = Locks::new(connector(&servers.address(), SESSION)).await.unwrap();
    let checkup = all.checkup().await.unwrap();
    let leader = fact(&checkup, "leader").to_owned();
    assert_eq!(fact(&checkup, "members that answer"), "3 of 3");
    assert_eq!(fact(&checkup, &format!("{leader}: mode")), "leader");
    assert_eq!(checkup.facts.iter().filter(|fact| fact.value == "follower").count(), 2, "{checkup:?}");
    assert!(!found(&checkup, "does not answer") && !found(&checkup, "the address names"), "{checkup:?}");
    act(&servers, Servers::kill_leader).await;
    // The others elect another.
    let elected = async || {
        let checkup = all.checkup().await;
        checkup.is_ok_and(|checkup| hosts.contains(&fact(&checkup, "leader").to_owned()))
    };
    eventually(SESSION, "another leads", elected).await;
    let checkup = all.checkup().await.unwrap();
    assert!(fact(&checkup, "members").starts_with("3: "), "{checkup:?}");
    assert_eq!(fact(&checkup, "members that answer"), "2 of 3");
    assert!(found(&checkup, &format!("{leader} does not answer")), "{checkup:?}");
}

fn fact<'a>(checkup: &'a Checkup, what: &str) -> &'a str {
    checkup.facts.iter().find(|fact| fact.what == what).map_or("", |fact| fact.value.as_str())
}

fn found(checkup: &Checkup, what: &str) -> bool {
    checkup.findings.iter().any(|finding| finding.what.contains(what))
}
