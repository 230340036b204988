//! Several at once, all or none.

use std::time::Duration;

use lockhouse_core::{Clock, Kind, Release};
use tokio::task::JoinSet;

use crate::gate::{Mode, Verb};
use crate::inside::Inside;
use crate::stage::{BUSY_MACHINE, LONG, SOON, Stage};
use crate::task::spawn;

pub(crate) async fn all_are_taken_and_given_back(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let names = ["c", "a", "b", "a"].map(|name| stage.name(name));
    let held = a.several(&names).ttl(stage.ttl()).lock().await.unwrap();
    assert_eq!(held.guards().len(), 3, "a name given twice counts once");
    held.check().unwrap();
    for name in ["a", "b", "c"] {
        assert!(stage.mutex(&b, name).try_lock().await.unwrap().is_none(), "{name} is not held");
    }
    assert_eq!(held.release().await.unwrap(), [Release::Freed; 3]);
    stage.nothing_left(&b, Duration::ZERO).await;
}

pub(crate) async fn a_failure_at_any_gives_back_the_rest(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let names = ["a", "b", "c", "d"];
    let several = a.several(names.map(|name| stage.name(name))).ttl(LONG * 2);
    for (place, taken) in names.into_iter().enumerate() {
        let blocker = stage.mutex(&b, taken).lock().await.unwrap();
        let error = several.clone().wait(BUSY_MACHINE).lock().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Busy, "failed at {place}: {error}");
        assert!(several.try_lock().await.unwrap().is_none());
        for free in names.into_iter().filter(|name| *name != taken) {
            assert!(stage.mutex(&b, free).try_lock().await.unwrap().is_some(), "{free} was not given back");
        }
        blocker.release().await.unwrap();
        stage.nothing_left(&b, BUSY_MACHINE).await;
    }
}

pub(crate) async fn an_error_at_any_gives_back_the_rest(stage: Stage) {
    let ((a, gate), b) = (stage.gated().await, stage.client().await);
    let names = ["a", "b", "c"].map(|name| stage.name(name));
    gate.set(Verb::Claim, Mode::Late(Duration::from_millis(30)));
    let several = a.several(names).ttl(LONG * 2);
    let before = gate.calls(Verb::Claim);
    let taking = spawn(async move { several.try_lock().await });
    crate::eventually::eventually(LONG, "the second is asked for", async || gate.calls(Verb::Claim) >= before + 2)
        .await;
    gate.set(Verb::Claim, Mode::Fail);
    let error = taking.await.unwrap().expect_err("the third cannot be asked for");
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    stage.nothing_left(&b, SOON).await;
}

pub(crate) async fn opposite_orders_never_deadlock(stage: Stage) {
    let inside = Inside::default();
    let mut workers = JoinSet::new();
    for who in 0..4 {
        let mut names = ["a", "b", "c"].map(|name| stage.name(name));
        if who % 2 == 0 {
            names.reverse();
        }
        let several = stage.client().await.several(names).ttl(stage.ttl());
        let (inside, rounds) = (inside.clone(), stage.paced(30).max(5));
        workers.spawn(async move {
            for _ in 0..rounds {
                let held = several.lock().await.unwrap();
                let visit = inside.enter();
                tokio::task::yield_now().await;
                drop(visit);
                held.release().await.unwrap();
            }
        });
    }
    let done = tokio::time::timeout(LONG * 2, async {
        while let Some(done) = workers.join_next().await {
            done.unwrap();
        }
    });
    done.await.expect("nobody waits for each other");
    assert_eq!(inside.most(), 1);
}

pub(crate) async fn one_budget_for_all(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let _last = stage.mutex(&b, "c").lock().await.unwrap();
    let first = stage.mutex(&b, "a").lock().await.unwrap();
    let budget = BUSY_MACHINE * 4;
    let several = a.several(["a", "b", "c"].map(|name| stage.name(name))).ttl(stage.ttl()).wait(budget);
    let started = Clock::Boot.now();
    let (waited, _) = tokio::join!(several.lock(), async {
        // A part of the budget is spent on the first.
        tokio::time::sleep(budget * 3 / 4).await;
        first.release().await.unwrap();
    });
    let took = Clock::Boot.now().since(started);
    assert_eq!(waited.unwrap_err().kind(), Kind::Busy);
    assert!(took >= budget, "early: {took:?}");
    assert!(took < budget + BUSY_MACHINE, "late: {took:?}");
}

pub(crate) async fn the_loss_of_any_is_told(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let held = a.several(["a", "b", "c"].map(|name| stage.name(name))).ttl(stage.ttl()).lock().await.unwrap();
    let place = stage.line(&b, "b").await.expect("held").places[0].id;
    assert!(b.evict(stage.name("b"), place).await.unwrap());
    let (name, _) = tokio::time::timeout(LONG, held.lost()).await.expect("told");
    assert_eq!(name.as_str(), stage.name("b"));
    assert_eq!(held.check().unwrap_err().kind(), Kind::Lost);
    drop(held);
    stage.nothing_left(&b, BUSY_MACHINE).await;
}
