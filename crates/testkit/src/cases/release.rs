//! Giving back.

use std::time::Duration;

use lockhouse_core::{Clock, Happened, Kind, Patience, Release, Renewal, Standing, Withdrawal};

use crate::eventually::eventually;
use crate::gate::{Mode, Verb};
use crate::stage::{BUSY_MACHINE, LONG, SOON, Stage};
use crate::task::spawn;
use crate::wire::Cut;

pub(crate) async fn releasing_what_is_not_held_says_so(stage: Stage) {
    let locks = stage.client().await;
    let guard = stage.mutex(&locks, "x").lock().await.unwrap();
    stage.subject().saboteur().expect("needed").remove(&stage.checked("x")).await;
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
}

pub(crate) async fn a_second_release_does_not_harm_the_successor(stage: Stage) {
    let engine = stage.raw().await.engine;
    let (first, second) = (stage.claim("x", Patience::Waits), stage.claim("x", Patience::Waits));
    assert!(matches!(engine.claim(&first).await.unwrap(), Standing::Granted { .. }));
    assert!(matches!(engine.claim(&second).await.unwrap(), Standing::Queued { .. }));
    assert_eq!(engine.withdraw(&first).await.unwrap(), Withdrawal::Withdrawn);
    let Standing::Granted { token } = engine.claim(&second).await.unwrap() else { panic!("nobody else is in line") };
    for _ in 0..2 {
        assert_eq!(engine.withdraw(&first).await.unwrap(), Withdrawal::NotThere);
    }
    assert_eq!(engine.claim(&second).await.unwrap(), Standing::Granted { token });
    assert_eq!(engine.withdraw(&second).await.unwrap(), Withdrawal::Withdrawn);
}

pub(crate) async fn a_claim_that_is_repeated_takes_one_place(stage: Stage) {
    let (engine, locks) = (stage.raw().await.engine, stage.client().await);
    let (first, second) = (stage.claim("x", Patience::Waits), stage.claim("x", Patience::Waits));
    let granted = engine.claim(&first).await.unwrap();
    for _ in 0..3 {
        assert_eq!(engine.claim(&first).await.unwrap(), granted, "a repeated claim is answered as the first was");
        assert!(matches!(engine.claim(&second).await.unwrap(), Standing::Queued { .. }));
    }
    assert_eq!(stage.count(&locks, "x").await, (1, 1));
    engine.withdraw(&first).await.unwrap();
    engine.withdraw(&second).await.unwrap();
    stage.nothing_left(&locks, BUSY_MACHINE).await;
}

pub(crate) async fn nobody_can_release_the_claim_of_another(stage: Stage) {
    let (engine, locks) = (stage.raw().await.engine, stage.client().await);
    let guard = stage.mutex(&locks, "x").lock().await.unwrap();
    let stranger = stage.claim("x", Patience::Waits);
    assert_eq!(engine.withdraw(&stranger).await.unwrap(), Withdrawal::NotThere);
    assert_eq!(engine.renew(std::slice::from_ref(&stranger)).await.unwrap(), [Renewal::Gone]);
    assert_eq!(stage.count(&locks, "x").await, (1, 0));
    guard.check().unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
}

pub(crate) async fn a_release_after_expiry_leaves_the_new_holder_alone(stage: Stage) {
    let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
    let old = stage.mutex(&a, "x").lock().await.unwrap();
    wire.cut(Cut::Silent);
    let new = tokio::time::timeout(LONG, stage.mutex(&b, "x").lock()).await.expect("its lease ends").unwrap();
    assert_eq!(old.check().unwrap_err().kind(), Kind::Lost);
    wire.mend();
    // The first answer after a cut may still be an error: the release is then the keeper's.
    match old.release().await {
        Ok(release) => assert_eq!(release, Release::NotHeld),
        Err(error) => assert_eq!(error.may_have_happened(), Happened::Unknown, "{error}"),
    }
    tokio::time::sleep(stage.ttl() / 2).await;
    new.check().expect("the new holder is left alone");
    assert!(stage.mutex(&a, "x").try_lock().await.unwrap().is_none(), "the new holder is left alone");
}

pub(crate) async fn a_release_that_cannot_be_confirmed_is_unknown_and_ends_renewal(stage: Stage) {
    let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    wire.cut(Cut::Silent);
    let started = Clock::Boot.now();
    let error = guard.release().await.unwrap_err();
    let bound = stage.ttl().min(Duration::from_secs(5)) + BUSY_MACHINE;
    assert!(Clock::Boot.now().since(started) < bound, "a release takes no longer than {bound:?}");
    assert_eq!(error.may_have_happened(), Happened::Unknown, "{error}");
    // Never mended: nobody renews it, so it is free when its lease is over.
    let left = stage.freed_by_lease();
    eventually(left, "the lock is free when its lease is over", async || {
        stage.mutex(&b, "x").try_lock().await.unwrap().is_some()
    })
    .await;
}

pub(crate) async fn a_release_whose_reply_is_lost_can_be_repeated(stage: Stage) {
    let ((a, gate), b) = (stage.gated().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    gate.set(Verb::Withdraw, Mode::LoseReply);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.may_have_happened(), Happened::Unknown, "{error}");
    let successor = stage.mutex(&b, "x").try_lock().await.unwrap().expect("the release was carried out");
    // The keeper goes on withdrawing, at first without an answer and then with one.
    let before = gate.calls(Verb::Withdraw);
    eventually(LONG, "the keeper repeats the release", async || gate.calls(Verb::Withdraw) > before + 1).await;
    gate.set(Verb::Withdraw, Mode::Pass);
    tokio::time::sleep(stage.ttl() / 2).await;
    successor.check().expect("the successor is not harmed");
    assert!(stage.mutex(&a, "x").try_lock().await.unwrap().is_none(), "the successor is not harmed");
}

pub(crate) async fn a_claim_that_is_sent_twice_at_once_leaves_nothing(stage: Stage) {
    let (engine, locks) = (stage.raw().await.engine, stage.client().await);
    for _ in 0..10 {
        let claim = stage.claim("x", Patience::Waits);
        let (once, twice) = tokio::join!(engine.claim(&claim), engine.claim(&claim));
        assert!(matches!((once.unwrap(), twice.unwrap()), (Standing::Granted { .. }, Standing::Granted { .. })));
        assert_eq!(engine.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
        stage.nothing_left(&locks, BUSY_MACHINE).await;
    }
}

pub(crate) async fn a_release_takes_out_what_is_still_on_its_way(stage: Stage) {
    let ((a, gate), b) = (stage.gated().await, stage.client().await);
    gate.set(Verb::Claim, Mode::Orphan(Duration::from_millis(300)));
    let mutex = stage.enduring(&a, "x");
    let sent = gate.calls(Verb::Claim);
    let patient = spawn(async move { mutex.lock().await });
    eventually(LONG, "it asks", async || gate.calls(Verb::Claim) > sent).await;
    gate.set(Verb::Claim, Mode::Pass);
    let guard = tokio::time::timeout(LONG, patient).await.expect("asked again").unwrap().unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
    // The first request arrives when everything is over.
    gate.until_all_arrived().await;
    stage.nothing_left(&b, SOON).await;
}

pub(crate) async fn renewal_never_outlives_release(stage: Stage) {
    let (locks, gate) = stage.gated().await;
    let guard = stage.mutex(&locks, "x").lock().await.unwrap();
    eventually(LONG, "a held lock is renewed", async || gate.calls(Verb::Renew) > 0).await;
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
    // One that was on its way when the release began may be counted after it.
    let renewals = gate.calls(Verb::Renew);
    tokio::time::sleep(stage.ttl()).await;
    assert!(gate.calls(Verb::Renew) <= renewals + 1, "a lock that was released is renewed");
}

pub(crate) async fn a_renewal_never_revives_what_was_released(stage: Stage) {
    let (engine, locks) = (stage.raw().await.engine, stage.client().await);
    let claim = stage.claim("x", Patience::Waits);
    engine.claim(&claim).await.unwrap();
    let late = [claim.clone()];
    assert_eq!(engine.renew(&late).await.unwrap(), [Renewal::Renewed]);
    assert_eq!(engine.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(engine.renew(&late).await.unwrap(), [Renewal::Gone]);
    assert_eq!(stage.count(&locks, "x").await, (0, 0), "a renewal revived a claim");
}

pub(crate) async fn a_dropped_guard_releases(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    drop(stage.enduring(&a, "x").lock().await.unwrap());
    stage.nothing_left(&b, SOON).await;
    // Also when the client goes with it.
    let guard = stage.enduring(&a, "x").lock().await.unwrap();
    drop(a);
    guard.check().expect("a guard keeps its client");
    drop(guard);
    stage.nothing_left(&b, SOON).await;
}

pub(crate) async fn closing_a_client_gives_everything_back(stage: Stage) {
    let b = stage.client().await;
    for _ in 0..10 {
        let a = stage.client().await;
        let held = stage.enduring(&a, "x").lock().await.unwrap();
        let blocker = stage.enduring(&b, "y").lock().await.unwrap();
        let mutex = stage.enduring(&a, "y");
        let waiter = spawn(async move { mutex.lock().await });
        stage.until_waiting(&b, "y", 1).await;
        a.clone().close(LONG).await.unwrap();
        assert_eq!(held.check().unwrap_err().kind(), Kind::Lost);
        tokio::time::timeout(BUSY_MACHINE, held.lost()).await.expect("whoever watches the guard is told");
        let waited = tokio::time::timeout(BUSY_MACHINE, waiter).await.expect("waiters are told");
        assert_eq!(waited.unwrap().unwrap_err().kind(), Kind::Closed);
        assert_eq!(stage.mutex(&a, "z").try_lock().await.unwrap_err().kind(), Kind::Closed);
        blocker.release().await.unwrap();
        stage.nothing_left(&b, BUSY_MACHINE).await;
    }
}
