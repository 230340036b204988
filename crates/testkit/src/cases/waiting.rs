//! Waiting, and giving up.

use std::time::Duration;

use lockhouse_core::{Clock, Happened, Kind, Side};

use crate::eventually::eventually;
use crate::gate::{Mode, Verb};
use crate::stage::{BUSY_MACHINE, LONG, SOON, Stage};
use crate::task::spawn;

pub(crate) async fn no_patience_returns_at_once(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let _guard = stage.enduring(&a, "x").lock().await.unwrap();
    let started = Clock::Boot.now();
    assert!(stage.enduring(&b, "x").try_lock().await.unwrap().is_none());
    let took = Clock::Boot.now().since(started);
    assert!(took < BUSY_MACHINE, "a try took {took:?}");
    assert_eq!(stage.count(&a, "x").await, (1, 0), "a try left something behind");
}

pub(crate) async fn a_wait_is_neither_early_nor_late(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let _guard = stage.mutex(&a, "x").lock().await.unwrap();
    let wait = BUSY_MACHINE;
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        let started = Clock::Boot.now();
        let error = stage.mutex(&b, "x").wait(wait).lock().await.unwrap_err();
        let waited = Clock::Boot.now().since(started);
        assert_eq!(error.kind(), Kind::Busy, "{error}");
        assert!(waited >= wait, "early: {waited:?}");
        shortest = shortest.min(waited);
    }
    // The machine may be busy with other tests, but not every time.
    assert!(shortest <= wait + Duration::from_millis(300), "late: {shortest:?} at best");
    stage.until_waiting(&a, "x", 0).await;
}

pub(crate) async fn an_endless_wait_wakes_on_release(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x");
    let waiter = spawn(async move { mutex.lock().await });
    stage.until_waiting(&a, "x", 1).await;
    guard.release().await.unwrap();
    // Whoever only asks does so at least twice a lease.
    let woken = tokio::time::timeout(stage.ttl() / 2 + BUSY_MACHINE, waiter).await;
    drop(woken.expect("woken by the release").unwrap().unwrap());
}

pub(crate) async fn a_waiter_is_told_of_its_turn(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    // Who would only ask, would ask again when half of the lease is over.
    for release in [true, false] {
        let guard = stage.enduring(&a, "x").lock().await.unwrap();
        let mutex = stage.enduring(&b, "x");
        let waiter = spawn(async move { mutex.lock().await });
        stage.until_waiting(&a, "x", 1).await;
        if release {
            guard.release().await.unwrap();
        } else {
            drop(guard);
        }
        let told = tokio::time::timeout(BUSY_MACHINE * 3, waiter).await.expect("told of its turn");
        told.unwrap().unwrap().release().await.unwrap();
    }
}

pub(crate) async fn a_cancelled_waiter_leaves_no_place(stage: Stage) {
    let (a, b, c) = (stage.client().await, stage.client().await, stage.client().await);
    let guard = stage.enduring(&a, "x").lock().await.unwrap();
    let mutex = stage.enduring(&b, "x");
    let cancelled = spawn(async move { mutex.lock().await });
    stage.until_waiting(&a, "x", 1).await;
    let mutex = stage.enduring(&c, "x");
    let behind = spawn(async move { mutex.lock().await });
    stage.until_waiting(&a, "x", 2).await;
    cancelled.abort();
    let gone = async || stage.count(&a, "x").await == (1, 1);
    eventually(BUSY_MACHINE, "a cancelled waiter leaves the line", gone).await;
    guard.release().await.unwrap();
    let next = tokio::time::timeout(LONG, behind).await;
    drop(next.expect("the one behind it is next").unwrap().unwrap());
}

pub(crate) async fn a_wait_that_is_over_sends_nothing(stage: Stage) {
    let (locks, gate) = stage.gated().await;
    let before = gate.all_calls();
    let mutex = stage.mutex(&locks, "x").wait(Duration::ZERO);
    assert_eq!(mutex.lock().await.unwrap_err().kind(), Kind::Busy);
    assert!(mutex.lock_in_time().await.unwrap().is_none());
    assert_eq!(locks.several([stage.name("x")]).wait(Duration::ZERO).lock().await.unwrap_err().kind(), Kind::Busy);
    assert_eq!(gate.all_calls(), before, "something was sent");
}

pub(crate) async fn a_claim_whose_reply_is_lost_is_not_left_behind(stage: Stage) {
    let ((a, gate), b) = (stage.gated().await, stage.client().await);
    gate.set(Verb::Claim, Mode::LoseReply);
    let error = stage.mutex(&a, "x").try_lock().await.expect_err("nobody knows how it stands");
    assert_eq!(error.may_have_happened(), Happened::Unknown, "{error}");
    assert_ne!(error.kind(), Kind::Busy, "a lost reply is not a refusal");
    stage.nothing_left(&b, stage.freed_by_lease()).await;
    gate.set(Verb::Claim, Mode::Swallow);
    let error = stage.mutex(&a, "x").try_lock().await.expect_err("nobody knows how it stands");
    assert_eq!(error.may_have_happened(), Happened::Unknown, "{error}");
    gate.set(Verb::Claim, Mode::Pass);
    stage.nothing_left(&b, stage.freed_by_lease()).await;
}

pub(crate) async fn a_patient_claim_asks_again_after_a_lost_reply(stage: Stage) {
    let ((a, gate), b) = (stage.gated().await, stage.client().await);
    gate.set(Verb::Claim, Mode::LoseReply);
    let mutex = stage.mutex(&a, "x");
    let patient = spawn(async move { mutex.lock().await });
    eventually(LONG, "it asks again", async || gate.calls(Verb::Claim) >= 2).await;
    gate.set(Verb::Claim, Mode::Pass);
    let guard = tokio::time::timeout(LONG, patient).await.expect("granted in the end").unwrap().unwrap();
    guard.check().unwrap();
    assert_eq!(stage.count(&b, "x").await, (1, 0), "asking again took a second place");
    guard.release().await.unwrap();
}

pub(crate) async fn a_lost_wake_up_strands_nobody(stage: Stage) {
    let (a, (b, gate)) = (stage.client().await, stage.gated().await);
    gate.set(Verb::Moved, Mode::Hang);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x");
    let waiter = spawn(async move { mutex.lock().await });
    stage.until_waiting(&a, "x", 1).await;
    guard.release().await.unwrap();
    let found_out = tokio::time::timeout(stage.ttl() + BUSY_MACHINE, waiter).await;
    let guard = found_out.expect("it asks by itself").unwrap().unwrap();
    guard.check().unwrap();
}

pub(crate) async fn a_last_question_without_an_answer_is_a_wait_in_vain(stage: Stage) {
    let (a, (b, gate)) = (stage.client().await, stage.gated().await);
    gate.set(Verb::Moved, Mode::Hang);
    let _guard = stage.mutex(&a, "x").lock().await.unwrap();
    // It asks once more, when half of its lease is over.
    let mutex = stage.mutex(&b, "x").ttl(stage.ttl() * 2).wait(stage.ttl() + BUSY_MACHINE / 4);
    let waiter = spawn(async move { mutex.lock_in_time().await });
    stage.until_waiting(&a, "x", 1).await;
    gate.set_side(Side::Front, Verb::Claim, Mode::Hang);
    let answer = tokio::time::timeout(LONG, waiter).await.expect("a wait ends").unwrap();
    assert!(answer.expect("nothing failed").is_none());
    stage.until_waiting(&a, "x", 0).await;
}

pub(crate) async fn a_panic_frees_the_lock(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let mutex = stage.enduring(&a, "x");
    let panicked = spawn(async move {
        let _guard = mutex.lock().await.unwrap();
        // Not `panic!`, which would print a message that looks like a failure of the suite's.
        std::panic::resume_unwind(Box::new("a panic of the user's"));
    });
    assert!(panicked.await.unwrap_err().is_panic());
    stage.nothing_left(&b, SOON).await;
    assert!(stage.enduring(&b, "x").try_lock().await.unwrap().is_some());
}
