//! A replica takes over: what becomes of the locks that the master had given.

mod servers;
mod watched;

use std::time::Duration;

use lockhouse_core::{Kind, Locks, Loss};
use lockhouse_redis::Redis;
use redis::Value;
use watched::Watched;

const TTL: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);

async fn client(watched: &Watched, replicas: u32) -> Locks {
    Locks::new(Redis::sentinel(&watched.address()).unwrap().replicas(replicas)).await.unwrap()
}

/// What `guarantees()` and the README say of one server and of Sentinel: a fail-over may lose a grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_off_master_causes_a_double_hold_and_not_a_grant_that_waits_for_replicas() {
    let watched = Watched::start();
    let (careless, careful) = (client(&watched, 0).await, client(&watched, 1).await);
    watched.cut_off_master();

    let old = careless.mutex("careless").ttl(TTL).lock().await.unwrap();
    let error = careful.mutex("careful").ttl(TTL).try_lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(error.to_string().contains("0 of 1 replicas have acknowledged"), "{error}");
    assert_eq!(watched.servers[0].tell("EXISTS lockhouse:careful"), Value::Int(0), "the grant was not withdrawn");

    watched.fail_over();
    let new = client(&watched, 0).await.mutex("careless").ttl(TTL).wait(LONG).lock().await.unwrap();
    assert!(old.check().is_ok() && new.check().is_ok(), "two hold it: nobody could know");
    assert!(new.token() > old.token(), "their tokens tell them apart");
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
