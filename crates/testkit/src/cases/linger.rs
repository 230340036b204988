//! `at_least`: a name that stays taken after its release.

use lockhouse_core::{Clock, Kind, Release};

use crate::eventually::eventually;
use crate::stage::{BUSY_MACHINE, Stage};

pub(crate) async fn a_name_stays_taken_after_its_release(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let at_least = stage.ttl() * 3 / 2;
    for (name, dropped) in [("released", false), ("dropped", true)] {
        let guard = stage.mutex(&a, name).at_least(at_least).lock().await.unwrap();
        let started = Clock::Boot.now();
        if dropped {
            drop(guard);
        } else {
            assert_eq!(guard.release().await.unwrap(), Release::Freed);
        }
        let bound = at_least + stage.freed_by_lease() - stage.ttl();
        let get_in = async || stage.mutex(&b, name).try_lock().await.unwrap().is_some();
        eventually(bound, "the name is free at last", get_in).await;
        let taken = Clock::Boot.now().since(started);
        assert!(taken >= at_least.mul_f64(0.95), "{name}: free after {taken:?}, before {at_least:?}");
    }
}

pub(crate) async fn a_name_stays_taken_when_its_client_is_gone(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let at_least = stage.ttl() * 3 / 2;
    let guard = stage.mutex(&a, "x").at_least(at_least).lock().await.unwrap();
    let started = Clock::Boot.now();
    guard.release().await.unwrap();
    a.close(BUSY_MACHINE).await.unwrap();
    stays_taken(&stage, &b, started + at_least).await;
}

pub(crate) async fn a_name_stays_taken_when_its_process_ends(stage: Stage) {
    let (name, ttl) = (stage.name("x"), stage.ttl().as_millis().to_string());
    let b = stage.client().await;
    let at_least = stage.ttl() * 3;
    let mut taker = stage.taker().await;
    taker.take(&["linger", &name, &ttl, &at_least.as_millis().to_string()]).await;
    let started = Clock::Boot.now();
    assert_eq!(taker.ask(&["release", &name]).await, "Freed");
    taker.kill().await;
    stays_taken(&stage, &b, started + at_least.mul_f64(0.9)).await;
    let get_in = async || stage.mutex(&b, "x").try_lock().await.unwrap().is_some();
    eventually(stage.freed_by_lease() + stage.ttl(), "the name is free at last", get_in).await;
}

async fn stays_taken(stage: &Stage, locks: &lockhouse_core::Locks, until: lockhouse_core::Moment) {
    loop {
        let free = stage.mutex(locks, "x").try_lock().await.unwrap().is_some();
        // The clock is read after the answer: a slow answer does not count.
        let early = Clock::Boot.now() < until;
        assert!(!(free && early), "the name was free too early");
        if !early {
            return;
        }
        tokio::time::sleep(stage.ttl() / 20).await;
    }
}

pub(crate) async fn a_long_hold_does_not_linger(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let at_least = stage.ttl() / 4;
    let guard = stage.mutex(&a, "x").at_least(at_least).lock().await.unwrap();
    tokio::time::sleep(at_least).await;
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
    assert!(stage.mutex(&b, "x").try_lock().await.unwrap().is_some(), "it was held long enough");
}

pub(crate) async fn lingering_is_refused(stage: Stage) {
    let locks = stage.client().await;
    let mutex = stage.mutex(&locks, "x").at_least(stage.ttl());
    for error in [mutex.lock().await.unwrap_err(), mutex.try_lock().await.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    }
}
