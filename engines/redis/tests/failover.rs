//! A replica takes over: what becomes of the locks that the master had given.

mod servers;
mod watched;

use std::time::Duration;

use lockhouse_core::{Kind, Locks, Loss};
use lockhouse_redis::Redis;
use lockhouse_testkit::{Cut, Proxy, Wire};
use redis::Value;
use servers::until;
use watched::{Sentinel, Watched};

const TTL: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);

async fn client(watched: &Watched, replicas: u32) -> Locks {
    Locks::new(Redis::sentinel(&watched.address()).unwrap().replicas(replicas)).await.unwrap()
}

/// What `guarantees()` and the README say of one server and of Sentinel: a fail-over may lose a grant.
///
/// One client is cut off together with the master, and hears nothing of the sentinels.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_off_master_causes_a_double_hold_and_not_a_grant_that_waits_for_replicas() {
    let watched = Watched::start();
    let proxies: Vec<Proxy> = watched.sentinels.iter().map(|it| Proxy::before(it.socket())).collect();
    let sentinels: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let at = |replicas| Redis::sentinel(&format!("//{}/mymaster", sentinels.join(","))).unwrap().replicas(replicas);
    let (careless, careful) = (Locks::new(at(0)).await.unwrap(), Locks::new(at(1)).await.unwrap());
    watched.cut_off_master();
    proxies.iter().for_each(|proxy| proxy.cut(Cut::Silent));

    let old = careless.mutex("careless").ttl(TTL).lock().await.unwrap();
    let error = careful.mutex("careful").ttl(TTL).try_lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(error.to_string().contains("0 of 1 replicas have acknowledged"), "{error}");
    assert_eq!(watched.servers[0].tell("EXISTS lockhouse:careful"), Value::Int(0), "the grant was not withdrawn");

    watched.fail_over();
    let new = client(&watched, 0).await.mutex("careless").ttl(TTL).wait(LONG).lock().await.unwrap();
    assert!(old.check().is_ok() && new.check().is_ok(), "two hold it: nobody could know");
    assert!(new.token() > old.token(), "their tokens tell them apart");

    // As soon as a sentinel can be asked, the one who stayed with the deposed master is told.
    proxies.iter().for_each(|proxy| proxy.mend());
    let loss = tokio::time::timeout(Duration::from_secs(6) + TTL, old.lost()).await.expect("told in time");
    assert_eq!(loss, Loss::Gone);
    new.check().unwrap();
}

/// The master is cut off from the sentinels, and the client from nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_does_not_stay_with_a_deposed_master() {
    let watched = Watched::start();
    let locks = client(&watched, 0).await;
    let kept = locks.mutex("kept").ttl(LONG).lock().await.unwrap();
    until("both replicas know it", || {
        watched.servers[1..].iter().all(|it| it.tell("EXISTS lockhouse:kept") == Value::Int(1))
    });
    watched.cut_off_master();
    let lost = locks.mutex("lost").ttl(TTL).lock().await.unwrap();
    watched.fail_over();
    let loss = tokio::time::timeout(Duration::from_secs(6) + TTL, lost.lost()).await.expect("told in time");
    assert_eq!(loss, Loss::Gone, "the new master was asked, and knows nothing of it");
    kept.check().expect("the new master knows it");
    let next = locks.mutex("lost").ttl(TTL).wait(LONG).lock().await.unwrap();
    assert_eq!(watched.servers[0].tell("EXISTS lockhouse:lost"), Value::Int(0), "the deposed master was not asked");
    assert!(next.token() > lost.token());
}

/// A sentinel that hears nothing of the others goes on naming the deposed master.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_missed_a_fail_over_is_not_believed() {
    let watched = Watched::start();
    let deposed = &watched.servers[0];
    watched.cut_off_master();
    // Sentinels hear of each other on a channel of the servers they watch.
    deposed.tell("ACL SETUSER default resetchannels &lockhouse:*");
    watched.fail_over();
    let behind = Sentinel::start(deposed.port);
    until("it names the deposed master", || behind.names() == Some(deposed.port));
    let others = &watched.sentinels;
    let address = format!("//{},{},{}/mymaster", behind.socket(), others[0].socket(), behind.socket());
    let locks = Locks::new(Redis::sentinel(&address).unwrap()).await.unwrap();
    let held = locks.mutex("x").ttl(LONG).wait(TTL).try_lock().await;
    assert!(held.is_err(), "the new master gives nothing away for as long as the lease, and the deposed one does");
    assert_eq!(behind.names(), Some(deposed.port), "it heard of it, and the test shows nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_replicas_acknowledge_no_more_is_lost() {
    let watched = Watched::start();
    let careful = client(&watched, 1).await;
    let held = careful.mutex("x").ttl(TTL).lock().await.unwrap();
    tokio::time::sleep(TTL).await;
    held.check().expect("renewed, and acknowledged");
    watched.cut_off_master();
    let loss = tokio::time::timeout(TTL + Duration::from_secs(1), held.lost()).await.expect("told in time");
    assert_eq!(loss, Loss::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_replicas_have_survives_the_death_of_the_master() {
    let watched = Watched::start();
    let locks = client(&watched, 1).await;
    let held = locks.mutex("x").ttl(LONG).lock().await.unwrap();
    watched.servers[0].kill();
    watched.until_failed_over();
    let other = client(&watched, 0).await;
    let refused = other.mutex("x").ttl(TTL).wait(TTL * 2).try_lock().await;
    assert!(refused.unwrap().is_none(), "the new master knows the holder");
    held.check().unwrap();
    held.release().await.unwrap();
    other.mutex("x").ttl(TTL).wait(LONG).lock().await.expect("it is free").release().await.unwrap();
}

/// The master lives on as a replica: it closes connections and answers `READONLY`.
#[tokio::test(flavor = "multi_thread")]
async fn a_planned_fail_over_is_followed() {
    let watched = Watched::start();
    let locks = client(&watched, 0).await;
    let held = locks.mutex("x").ttl(LONG).lock().await.unwrap();
    watched.fail_over();
    let next = locks.mutex("y").ttl(TTL).wait(LONG).lock().await.unwrap();
    held.check().expect("it was replicated");
    next.release().await.unwrap();
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_master_that_the_sentinels_do_not_know_is_a_mistake() {
    let watched = Watched::start();
    let address = watched.address().replace("mymaster", "theirs");
    let error = Locks::new(Redis::sentinel(&address).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("know no master \"theirs\""), "{error}");
}
