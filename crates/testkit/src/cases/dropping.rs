//! Futures that are dropped after every k-th poll: nothing is held or queued afterwards.
//!
//! Each is dropped before it has sent anything, after the engine has carried it out but before the answer is there,
//! and while the request is still on its way to the engine, arriving after everybody has given up.

use std::future::Future;
use std::time::Duration;

use lockhouse_core::{Locks, Result};

use crate::eventually::eventually;
use crate::gate::{Gate, Mode, Verb};
use crate::polled::{dropped_after_every_poll, polled};
use crate::stage::{LONG, SOON, Stage};
use crate::task::spawn;

/// So long that it is not what ends anything.
const LEASE: Duration = Duration::from_secs(60);

/// How an answer or a request is delayed, so that there is something to interrupt on every engine.
const DELAYS: [Mode; 3] = [Mode::Pass, Mode::Late(DELAY), Mode::Straggle(DELAY)];
/// Long enough to be noticed by who is left without a processor for a moment.
const DELAY: Duration = Duration::from_millis(20);

/// Makes the future of one verb for every k and every delay, and looks whether anything is left.
async fn nothing_is_left<T, F: Future<Output = Result<T>>>(
    stage: &Stage,
    verb: Verb,
    mut make: impl FnMut(Locks, String) -> F,
) {
    let ((locks, gate), observer) = (stage.gated().await, stage.client().await);
    for mode in DELAYS {
        gate.set(verb, mode);
        let name = |polls: u32| stage.name(&format!("{mode:?}-{polls}"));
        let (polls, output) = dropped_after_every_poll(|polls| make(locks.clone(), name(polls))).await;
        assert!(mode == Mode::Pass || polls > 1, "{mode:?}: there was nothing to interrupt");
        drop(output.unwrap());
        gate.until_all_arrived().await;
        stage.nothing_left(&observer, SOON).await;
    }
}

pub(crate) async fn lock_leaves_nothing(stage: Stage) {
    nothing_is_left(&stage, Verb::Claim, |locks, name| async move { locks.mutex(name).ttl(LEASE).lock().await }).await;
}

pub(crate) async fn try_lock_leaves_nothing(stage: Stage) {
    nothing_is_left(&stage, Verb::Claim, |locks, name| async move { locks.mutex(name).ttl(LEASE).try_lock().await })
        .await;
}

pub(crate) async fn release_leaves_nothing(stage: Stage) {
    let ((locks, gate), observer) = (stage.gated().await, stage.client().await);
    for mode in DELAYS {
        gate.set(Verb::Withdraw, mode);
        for polls in 0..10 {
            let guard = stage.mutex(&locks, &format!("{mode:?}-{polls}")).ttl(LEASE).lock().await.unwrap();
            if polled(polls, guard.release()).await.is_some() {
                assert!(mode == Mode::Pass || polls > 1, "{mode:?}: there was nothing to interrupt");
                break;
            }
        }
        gate.until_all_arrived().await;
        stage.nothing_left(&observer, SOON).await;
    }
}

pub(crate) async fn read_and_write_leave_nothing(stage: Stage) {
    nothing_is_left(&stage, Verb::Claim, |locks, name| async move { locks.rwlock(name).ttl(LEASE).read().await }).await;
    nothing_is_left(&stage, Verb::Claim, |locks, name| async move { locks.rwlock(name).ttl(LEASE).write().await })
        .await;
    nothing_is_left(&stage, Verb::Claim, |locks, name| async move {
        let writer = locks.rwlock(name).ttl(LEASE).write().await?;
        writer.downgrade().await.map_err(|(_, error)| error)
    })
    .await;
}

pub(crate) async fn semaphore_leaves_nothing(stage: Stage) {
    nothing_is_left(
        &stage,
        Verb::Claim,
        |locks, name| async move { locks.semaphore(name, 3).ttl(LEASE).acquire(2).await },
    )
    .await;
}

pub(crate) async fn several_leave_nothing(stage: Stage) {
    nothing_is_left(&stage, Verb::Claim, |locks, name| async move {
        let names = ["a", "b", "c"].map(|last| format!("{name}{last}"));
        locks.several(names).ttl(LEASE).lock().await
    })
    .await;
}

pub(crate) async fn campaign_leaves_nothing(stage: Stage) {
    nothing_is_left(&stage, Verb::Claim, |locks, name| async move { locks.election(name).ttl(LEASE).campaign().await })
        .await;
}

pub(crate) async fn a_wait_in_line_leaves_nothing(stage: Stage) {
    let ((locks, gate), observer) = (stage.gated().await, stage.client().await);
    let blocker = stage.mutex(&observer, "x").ttl(LEASE).lock().await.unwrap();
    for mode in DELAYS {
        gate.set(Verb::Claim, mode);
        for polls in 0..8 {
            assert!(polled(polls, stage.mutex(&locks, "x").ttl(LEASE).lock()).await.is_none(), "it is held");
        }
        gate.until_all_arrived().await;
        stage.until_waiting(&observer, "x", 0).await;
    }
    blocker.release().await.unwrap();
    stage.nothing_left(&observer, SOON).await;
}

pub(crate) async fn a_wait_that_is_granted_leaves_nothing(stage: Stage) {
    let ((locks, gate), observer) = (stage.gated().await, stage.client().await);
    for mode in DELAYS {
        set_both(&gate, mode);
        for polls in 0..20 {
            let blocker = stage.mutex(&observer, "x").ttl(LEASE).lock().await.unwrap();
            let mutex = stage.mutex(&locks, "x").ttl(LEASE);
            // Released at some point of the wait, so that the drop falls on every moment of the hand-over.
            let (done, _) = tokio::join!(polled(polls, mutex.lock()), async {
                tokio::time::sleep(Duration::from_millis(3)).await;
                blocker.release().await.unwrap();
            });
            drop(done);
            stage.nothing_left(&observer, SOON).await;
        }
    }
}

fn set_both(gate: &Gate, mode: Mode) {
    gate.set(Verb::Claim, mode);
    gate.set(Verb::Moved, mode);
}

pub(crate) async fn a_request_on_its_way_is_taken_out_when_it_arrives(stage: Stage) {
    let ((locks, gate), observer) = (stage.gated().await, stage.client().await);
    gate.set(Verb::Claim, Mode::Straggle(stage.ttl() / 2));
    let cancelled = tokio::time::timeout(stage.ttl() / 10, stage.mutex(&locks, "x").ttl(LEASE).lock()).await;
    assert!(cancelled.is_err(), "it cannot have been answered yet");
    // Nothing is there until it arrives; then it is taken out, before its lease is over.
    gate.until_all_arrived().await;
    gate.set(Verb::Claim, Mode::Pass);
    stage.nothing_left(&observer, SOON).await;
    let guard = stage.mutex(&observer, "x").try_lock().await.unwrap();
    guard.expect("nothing stands in the way").release().await.unwrap();
}

pub(crate) async fn a_repeated_request_on_its_way_is_taken_out_too(stage: Stage) {
    let ((locks, gate), observer) = (stage.gated().await, stage.client().await);
    let blocker = stage.mutex(&observer, "x").ttl(LEASE).lock().await.unwrap();
    // Whoever cannot be told of its turn asks again and again.
    gate.set(Verb::Moved, Mode::Fail);
    let mutex = stage.mutex(&locks, "x").ttl(LEASE);
    let waiter = spawn(async move { mutex.lock().await });
    stage.until_waiting(&observer, "x", 1).await;
    gate.set(Verb::Claim, Mode::Straggle(Duration::from_millis(300)));
    let sent = gate.calls(Verb::Claim);
    eventually(LONG, "it asks again", async || gate.calls(Verb::Claim) > sent).await;
    waiter.abort();
    // Its place is withdrawn at once; the request that is still on its way must not take another.
    stage.until_waiting(&observer, "x", 0).await;
    gate.until_all_arrived().await;
    let gone = async || stage.count(&observer, "x").await == (1, 0);
    eventually(SOON, "what was on its way is taken out", gone).await;
    tokio::time::timeout(SOON, waiter).await.expect("aborted").unwrap_err();
    blocker.release().await.unwrap();
    stage.nothing_left(&observer, SOON).await;
}
