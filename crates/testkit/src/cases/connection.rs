//! The connection fails.

use lockhouse_core::{Clock, Happened, Kind};

use crate::eventually::eventually;
use crate::stage::{BUSY_MACHINE, LONG, Stage};
use crate::task::spawn;
use crate::wire::Cut;

/// The longest that one request may take, as the client documents it.
const LONGEST_REQUEST: std::time::Duration = std::time::Duration::from_secs(5);

pub(crate) async fn every_cut_is_an_error_and_says_rightly_whether_it_happened(stage: Stage) {
    let each = Cut::ALL.map(|cut| {
        let stage = stage.clone();
        async move {
            let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
            let name = format!("{cut:?}");
            // Connected and at work before it is cut.
            stage.mutex(&a, &name).lock().await.unwrap().release().await.unwrap();
            wire.cut(cut);
            let started = Clock::Boot.now();
            let error = stage.mutex(&a, &name).try_lock().await.expect_err("a cut connection is not a refusal");
            let took = Clock::Boot.now().since(started);
            let bound = stage.ttl().min(LONGEST_REQUEST) + BUSY_MACHINE;
            assert!(took < bound, "{cut:?}: {took:?}, and not within {bound:?}");
            assert!(matches!(error.kind(), Kind::Unreachable | Kind::TimedOut), "{cut:?}: {error:?}");
            if error.may_have_happened() == Happened::No {
                assert_eq!(stage.count(&b, &name).await, (0, 0), "{cut:?}: it did happen: {error:?}");
            }
            wire.mend();
            let gone = async || stage.count(&b, &name).await == (0, 0);
            eventually(stage.freed_by_lease(), "what may have happened is taken back", gone).await;
        }
    });
    futures_util::future::join_all(each).await;
}

pub(crate) async fn a_mended_connection_works_as_before(stage: Stage) {
    let each = Cut::ALL.map(|cut| {
        let stage = stage.clone();
        async move {
            let (a, wire) = stage.cuttable().await;
            let mutex = stage.mutex(&a, &format!("{cut:?}"));
            for _ in 0..2 {
                mutex.lock().await.unwrap().release().await.unwrap();
                wire.cut(cut);
                mutex.try_lock().await.expect_err("it is cut");
                wire.mend();
                // A patient claim rides out whatever the mended connection still has to do.
                let guard = tokio::time::timeout(LONG, mutex.clone().wait(LONG).lock()).await.expect("in time");
                guard.unwrap_or_else(|error| panic!("after {cut:?}: {error}")).release().await.unwrap();
            }
            // Nothing is poisoned: every request from here on is answered.
            for _ in 0..20 {
                let guard = mutex.try_lock().await.unwrap_or_else(|error| panic!("after {cut:?}: {error}"));
                guard.expect("nobody else wants it").release().await.unwrap();
            }
        }
    });
    futures_util::future::join_all(each).await;
}

pub(crate) async fn a_waiter_is_told_of_its_turn_after_a_reconnect(stage: Stage) {
    let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
    // So long a lease that neither the cut nor asking at half of it decides anything.
    let lease = LONG * 2;
    for cut in [Cut::Closed, Cut::Reset] {
        let guard = stage.mutex(&b, "x").ttl(lease).lock().await.unwrap();
        let mutex = stage.mutex(&a, "x").ttl(lease);
        let waiter = spawn(async move { mutex.lock().await });
        stage.until_waiting(&b, "x", 1).await;
        wire.cut(cut);
        tokio::time::sleep(BUSY_MACHINE / 2).await;
        wire.mend();
        // Once around the connection, so that the waiter has had its chance to come back.
        let alive = async || stage.mutex(&a, "other").try_lock().await.is_ok();
        eventually(LONG, "the connection is mended", alive).await;
        tokio::time::sleep(BUSY_MACHINE).await;
        guard.release().await.unwrap();
        let told = tokio::time::timeout(BUSY_MACHINE * 3, waiter).await;
        let told = told.unwrap_or_else(|_| panic!("after {cut:?}: not told of its turn"));
        told.unwrap().unwrap().release().await.unwrap();
    }
}

pub(crate) async fn a_short_cut_costs_no_lock(stage: Stage) {
    let each = Cut::ALL.map(|cut| {
        let stage = stage.clone();
        async move {
            let (a, wire) = stage.cuttable().await;
            // Long enough for the engine's driver to come back in.
            let lease = stage.ttl() * 4;
            let guard = stage.mutex(&a, &format!("{cut:?}")).ttl(lease).lock().await.unwrap();
            wire.cut(cut);
            tokio::time::sleep(lease / 4).await;
            wire.mend();
            // Whatever lease the engine can keep: it ends later than it did.
            let ends = || Clock::Boot.now() + guard.valid_for();
            let before = ends();
            let renewed = async || ends() > before + BUSY_MACHINE / 10;
            eventually(lease, &format!("renewed after {cut:?}"), renewed).await;
            guard.check().unwrap();
            guard.release().await.unwrap();
        }
    });
    futures_util::future::join_all(each).await;
}
