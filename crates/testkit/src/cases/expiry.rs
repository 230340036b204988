//! Leases: how they end, and how they are kept.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Clock, Kind, Loss, MAX_TTL, MIN_TTL, Patience};

use crate::eventually::eventually;
use crate::gate::{Mode, Verb};
use crate::stage::{BUSY_MACHINE, LONG, Stage};
use crate::task::spawn;
use crate::wire::Cut;

pub(crate) async fn a_claim_that_nobody_renews_frees_itself(stage: Stage) {
    let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    wire.cut(Cut::Silent);
    let (started, valid) = (Clock::Boot.now(), guard.valid_for());
    let waiting = tokio::time::timeout(stage.freed_by_lease(), stage.mutex(&b, "x").lock()).await;
    drop(waiting.expect("free within the lease and the engine's slack").unwrap());
    let waited = Clock::Boot.now().since(started);
    assert!(waited >= valid, "free after {waited:?}, and the holder was promised {valid:?}");
    assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
}

pub(crate) async fn a_kept_lock_survives_three_leases(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let token = guard.token();
    let until = Clock::Boot.now() + stage.ttl() * 3;
    while Clock::Boot.now() < until {
        assert!(stage.mutex(&b, "x").try_lock().await.unwrap().is_none(), "somebody got in");
        guard.check().expect("kept");
        tokio::time::sleep(stage.ttl() / 20).await;
    }
    let line = stage.line(&b, "x").await.expect("held");
    assert_eq!(line.places[0].token, Some(token));
    guard.release().await.unwrap();
}

pub(crate) async fn at_most_ends_renewal(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let at_most = stage.ttl() * 3 / 2;
    let guard = stage.mutex(&a, "x").at_most(at_most).lock().await.unwrap();
    let started = Clock::Boot.now();
    let loss = tokio::time::timeout(at_most + BUSY_MACHINE, guard.lost()).await.expect("told in time");
    let held = Clock::Boot.now().since(started);
    assert_eq!(loss, Loss::HeldTooLong);
    // The grant is some moments older than our look at the clock.
    assert!(held >= at_most - Duration::from_millis(200), "told after {held:?}, too early");
    let waiting = tokio::time::timeout(stage.freed_by_lease(), stage.mutex(&b, "x").lock()).await;
    drop(waiting.expect("a stuck holder is not renewed").unwrap());
    drop(guard);
}

pub(crate) async fn no_loss_is_told_on_a_release(stage: Stage) {
    let locks = stage.client().await;
    let mutex = stage.mutex(&locks, "x").owner(&lockhouse_core::Owner::new("alice"));
    let (one, other) = (mutex.lock().await.unwrap(), mutex.lock().await.unwrap());
    let mut loss = std::pin::pin!(other.lost());
    one.release().await.unwrap();
    let told = tokio::time::timeout(stage.ttl() / 2, &mut loss).await;
    assert!(told.is_err(), "a loss was told on a release: {told:?}");
    other.check().unwrap();
    // Work that ends before the lock is released is not disturbed either.
    assert_eq!(other.protect(async { 7 }).await.unwrap(), 7);
}

pub(crate) async fn a_few_failed_renewals_are_ridden_out(stage: Stage) {
    let (locks, gate) = stage.gated().await;
    let guard = stage.mutex(&locks, "x").lock().await.unwrap();
    for (mode, failures) in [(Mode::Fail, 2), (Mode::LoseReply, 2), (Mode::Hang, 1)] {
        gate.set(Verb::Renew, mode);
        let enough = gate.calls(Verb::Renew) + failures;
        eventually(LONG, "renewals are tried", async || gate.calls(Verb::Renew) >= enough).await;
        gate.set(Verb::Renew, Mode::Pass);
        let kept = gate.calls(Verb::Renew) + 2;
        eventually(LONG, "renewals go on", async || gate.calls(Verb::Renew) >= kept).await;
        guard.check().unwrap_or_else(|error| panic!("a few times {mode:?}: {error}"));
    }
    guard.release().await.unwrap();
}

pub(crate) async fn a_loss_is_told_before_anybody_else_gets_in(stage: Stage) {
    let each = Cut::ALL.map(|cut| {
        let stage = stage.clone();
        async move {
            let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
            let name = format!("{cut:?}");
            let guard = Arc::new(stage.mutex(&a, &name).lock().await.unwrap());
            let (mutex, before) = (stage.mutex(&b, &name), Arc::clone(&guard));
            let next = spawn(async move {
                let guard = mutex.lock().await.unwrap();
                // Asked in the moment of the grant: when a task that sleeps is woken is the machine's business.
                (before.check().is_err(), guard)
            });
            stage.until_waiting(&b, &name, 1).await;
            wire.cut(cut);
            tokio::time::timeout(LONG, guard.lost()).await.expect("a loss is told");
            let (knew, _next) = tokio::time::timeout(LONG, next).await.expect("the line moves on").unwrap();
            assert!(knew, "{cut:?}: somebody got in while the holder's check still passed");
        }
    });
    futures_util::future::join_all(each).await;
}

pub(crate) async fn a_waiter_whose_lease_ended_is_not_told_granted(stage: Stage) {
    let (a, (b, wire), c) = (stage.client().await, stage.cuttable().await, stage.client().await);
    let first = stage.mutex(&a, "x").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x");
    let waiter = spawn(async move { mutex.lock().await });
    stage.until_waiting(&a, "x", 1).await;
    wire.cut(Cut::Silent);
    eventually(stage.freed_by_lease(), "the waiter's lease ends", async || stage.count(&a, "x").await.1 == 0).await;
    first.release().await.unwrap();
    let second = stage.mutex(&c, "x").try_lock().await.unwrap().expect("nobody else is in line");
    wire.mend();
    tokio::time::sleep(stage.ttl()).await;
    // By now it has given up, or it is in line again; what it must not have is the lock.
    if waiter.is_finished() {
        let error = waiter.await.unwrap().expect_err("it was granted a lock that is held");
        assert!(error.is_transient(), "{error}");
        return;
    }
    second.check().unwrap();
    let token = second.token();
    second.release().await.unwrap();
    let guard = tokio::time::timeout(LONG, waiter).await.expect("it is in line again").unwrap().unwrap();
    assert!(guard.token() > token);
}

pub(crate) async fn an_acquire_slower_than_its_lease_is_no_grant(stage: Stage) {
    let (a, gate) = stage.gated().await;
    let b = stage.client().await;
    gate.set(Verb::Claim, Mode::Late(stage.ttl() * 2));
    let error = stage.mutex(&a, "x").try_lock().await.expect_err("nobody can know how it stands");
    assert_eq!(error.kind(), Kind::TimedOut, "{error}");
    gate.set(Verb::Claim, Mode::Pass);
    stage.nothing_left(&b, BUSY_MACHINE).await;
    // Just before the lease ends and after the last moment at which the grant is worth something. Nobody renews it:
    // a claim that was renewed while its answer was late is worth having.
    gate.set(Verb::Renew, Mode::Fail);
    let margin = stage.ttl() / 200 + Duration::from_millis(1);
    gate.set(Verb::Claim, Mode::Late(stage.ttl() - margin));
    let patient = stage.mutex(&a, "y").wait(stage.ttl() * 3 / 2).lock_in_time().await;
    if let Ok(Some(guard)) = patient {
        panic!("a grant that came too late was believed: {guard:?}");
    }
    gate.set(Verb::Claim, Mode::Pass);
    stage.nothing_left(&b, stage.freed_by_lease()).await;
}

pub(crate) async fn leases_out_of_bounds_get_a_clear_answer(stage: Stage) {
    let locks = stage.client().await;
    for ttl in [Duration::ZERO, Duration::from_millis(1), MAX_TTL + Duration::from_secs(1), Duration::MAX] {
        let mutex = locks.mutex(stage.name("x")).ttl(ttl);
        for error in [mutex.lock().await.unwrap_err(), mutex.try_lock().await.unwrap_err()] {
            assert_eq!(error.kind(), Kind::Invalid, "{ttl:?}: {error}");
            assert!(error.to_string().contains("TTL"), "{error}");
        }
    }
    stage.nothing_left(&locks, Duration::ZERO).await;
    for ttl in [Duration::from_secs(86_400), MAX_TTL] {
        let guard = locks.mutex(stage.name("x")).ttl(ttl).lock().await.unwrap();
        // Where claims are bound to a session, nobody can promise more than the session.
        let lease = ttl.min(locks.longest_lease());
        assert!(guard.valid_for() > lease / 2, "{ttl:?}");
        guard.release().await.unwrap();
    }
}

pub(crate) async fn the_shortest_lease_works_and_a_shorter_one_is_refused(stage: Stage) {
    let locks = stage.client().await;
    let shortest = stage.guarantees().min_ttl.max(MIN_TTL);
    let shorter = shortest - Duration::from_millis(1);
    let error = locks.mutex(stage.name("x")).ttl(shorter).try_lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    // A busy machine can be too slow for so short a lease: then there is no answer in time, or it is lost and told so,
    // and the next one may work.
    eventually(LONG, "a lock of the shortest lease can be had", async || {
        match locks.mutex(stage.name("x")).ttl(shortest).wait(LONG).lock().await {
            Ok(guard) => {
                tokio::time::sleep(shortest * 2).await;
                guard.check().is_ok()
            }
            Err(error) => {
                assert_eq!(error.kind(), Kind::TimedOut, "{error}");
                false
            }
        }
    })
    .await;
}

pub(crate) async fn a_waiter_is_kept_in_line(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x");
    let waiter = spawn(async move { mutex.lock().await });
    let place = stage.until_waiting(&a, "x", 1).await.places[1].id;
    tokio::time::sleep(stage.ttl() * 2).await;
    let line = stage.line(&a, "x").await.expect("held");
    assert_eq!(line.places.iter().map(|place| place.id).nth(1), Some(place), "it lost its place: {line:?}");
    guard.release().await.unwrap();
    drop(tokio::time::timeout(LONG, waiter).await.expect("its turn").unwrap().unwrap());
}

pub(crate) async fn renewals_of_many_are_answered_one_by_one(stage: Stage) {
    let engine = stage.raw().await.engine;
    let claims: Vec<_> = (0..20).map(|i| stage.claim(&format!("{i}"), Patience::Waits)).collect();
    for claim in claims.iter().filter(|claim| !claim.name.as_str().ends_with('3')) {
        engine.claim(claim).await.unwrap();
    }
    let answers = engine.renew(&claims).await.unwrap();
    assert_eq!(answers.len(), claims.len());
    for (claim, answer) in claims.iter().zip(answers) {
        let there = !claim.name.as_str().ends_with('3');
        assert_eq!(answer == lockhouse_core::Renewal::Renewed, there, "{claim:?}: {answer:?}");
    }
    assert_eq!(engine.renew(&[]).await.unwrap(), []);
    for claim in &claims {
        engine.withdraw(claim).await.unwrap();
    }
}
