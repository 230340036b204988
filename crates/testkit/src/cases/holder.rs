//! The holder fails.

use lockhouse_core::{Clock, Exclusion, Guard, Kind, Locks, PublicId, Result, Written};

use crate::eventually::eventually;
use crate::gate::{Mode, Verb};
use crate::stage::{BUSY_MACHINE, LONG, Stage};
use crate::task::{Task, spawn};
use crate::wire::Cut;

pub(crate) async fn a_killed_holders_lock_is_free_in_time(stage: Stage) {
    let (name, ttl) = (stage.name("x"), stage.ttl().as_millis().to_string());
    let locks = stage.client().await;
    let mut taker = stage.taker().await;
    let token = taker.take(&["lock", &name, &ttl]).await;
    // It is kept as long as it lives: renewal dies with the process, not before.
    tokio::time::sleep(stage.ttl() * 3 / 2).await;
    assert!(stage.mutex(&locks, "x").try_lock().await.unwrap().is_none(), "it lives");
    let mutex = stage.mutex(&locks, "x");
    let next = spawn(async move { mutex.lock().await });
    stage.until_waiting(&locks, "x", 1).await;
    taker.kill().await;
    let next = tokio::time::timeout(stage.freed_by_crash(), next).await.expect("in time").unwrap().unwrap();
    assert!(next.token() > token);
}

pub(crate) async fn a_killed_holders_lock_is_free_at_once(stage: Stage) {
    // So long a lease that it cannot be what ends the hold.
    let (name, ttl) = (stage.name("x"), LONG * 2);
    let locks = stage.client().await;
    let mut taker = stage.taker().await;
    taker.take(&["lock", &name, &ttl.as_millis().to_string()]).await;
    assert!(stage.mutex(&locks, "x").try_lock().await.unwrap().is_none(), "it lives");
    taker.kill().await;
    assert!(stage.freed_by_crash() < ttl, "the bound of the engine is shorter than the lease");
    let next = tokio::time::timeout(stage.freed_by_crash(), stage.mutex(&locks, "x").ttl(ttl).lock()).await;
    drop(next.expect("the crash is noticed").unwrap());
}

pub(crate) async fn a_holder_that_returns_hands_over_at_once(stage: Stage) {
    // So long a lease that it cannot be what ends the hold.
    let (name, ttl) = (stage.name("x"), (LONG * 2).as_millis().to_string());
    let locks = stage.client().await;
    let mut taker = stage.taker().await;
    let token = taker.take(&["lock", &name, &ttl]).await;
    let mutex = stage.enduring(&locks, "x");
    let next = spawn(async move { mutex.lock().await });
    stage.until_waiting(&locks, "x", 1).await;
    // A second, and one for the machine.
    let (next, ()) = tokio::join!(tokio::time::timeout(BUSY_MACHINE * 2, next), taker.finish());
    let next = next.expect("at once").unwrap().unwrap();
    assert!(next.token() > token);
}

pub(crate) async fn a_killed_waiter_blocks_nobody(stage: Stage) {
    let (name, ttl) = (stage.name("x"), stage.ttl().as_millis().to_string());
    let locks = stage.client().await;
    let guard = stage.mutex(&locks, "x").lock().await.unwrap();
    let mut taker = stage.taker().await;
    taker.tell(&["lock", &name, &ttl]).await;
    stage.until_waiting(&locks, "x", 1).await;
    taker.kill().await;
    guard.release().await.unwrap();
    let next = tokio::time::timeout(stage.freed_by_crash(), stage.mutex(&locks, "x").lock()).await;
    drop(next.expect("in time").unwrap());
}

pub(crate) async fn a_holder_that_stood_still_finds_out_at_its_first_look(stage: Stage) {
    let (name, ttl, cell) = (stage.name("x"), stage.ttl().as_millis().to_string(), stage.name("cell"));
    let locks = stage.client().await;
    let mut taker = stage.taker().await;
    taker.take(&["lock", &name, &ttl]).await;
    assert_eq!(taker.ask(&["cell", &cell, &name, "theirs"]).await, "written");
    taker.pause();
    let next = tokio::time::timeout(stage.freed_by_lease(), stage.mutex(&locks, "x").lock()).await;
    let next = next.expect("its lease ends").unwrap();
    let ours = locks.cell(&cell).fenced(next.token()).write("ours").await.unwrap();
    assert!(matches!(ours, Written::Yes { .. }), "{ours:?}");
    taker.resume();
    let first_look = taker.ask(&["check", &name]).await;
    assert!(first_look.starts_with("lost"), "{first_look}");
    let refused = taker.ask(&["cell", &cell, &name, "theirs again"]).await;
    assert!(refused.starts_with("Stale"), "{refused}");
    assert_eq!(locks.cell(&cell).read().await.unwrap().value, b"ours");
}

pub(crate) async fn tokens_grow_after_every_process_was_killed(stage: Stage) {
    let (name, ttl) = (stage.name("x"), stage.ttl().as_millis().to_string());
    let mut newest = 0;
    for _ in 0..3 {
        // Nobody else is connected: nothing is left but what the engine keeps.
        let mut taker = stage.taker().await;
        let token = taker.take(&["lock", &name, &ttl]).await;
        assert!(token > newest, "the token {token} does not grow past {newest}");
        newest = token;
        taker.kill().await;
    }
}

pub(crate) async fn a_stale_token_is_refused_by_a_cell(stage: Stage) {
    let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
    let cell = stage.name("cell");
    let old = stage.mutex(&a, "x").lock().await.unwrap();
    wire.cut(Cut::Silent);
    let new = tokio::time::timeout(stage.freed_by_lease(), stage.mutex(&b, "x").lock()).await;
    let new = new.expect("its lease ends").unwrap();
    let written = b.cell(&cell).fenced(new.token()).write("new").await.unwrap();
    assert!(matches!(written, Written::Yes { .. }), "{written:?}");
    wire.mend();
    let stale = a.cell(&cell).fenced(old.token());
    let newest = new.token();
    eventually(LONG, "the connection is mended", async || stale.read().await.is_ok()).await;
    assert_eq!(stale.write("old").await.unwrap(), Written::Stale { newest });
    assert_eq!(stale.update(|_| b"old".to_vec()).await.unwrap_err().kind(), Kind::Lost);
    assert_eq!(b.cell(&cell).read().await.unwrap().value, b"new");
}

pub(crate) async fn a_blocked_runtime_loses_nothing(stage: Stage) {
    let observer = stage.client().await;
    let (tell, told) = tokio::sync::oneshot::channel();
    let blocked = stage.clone();
    // A runtime of one thread, as a program may have, which does not get to run for three leases.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let locks: Locks = blocked.client().await;
            let guard = blocked.mutex(&locks, "x").lock().await.unwrap();
            tell.send(guard.token()).unwrap();
            std::thread::sleep(blocked.ttl() * 3);
            guard.check().expect("held all the time");
            let token = guard.token();
            guard.release().await.unwrap();
            token
        })
    });
    let token = told.await.unwrap();
    let until = Clock::Boot.now() + stage.ttl() * 5 / 2;
    while Clock::Boot.now() < until {
        let line = stage.line(&observer, "x").await.expect("it is held");
        assert_eq!(line.places[0].token, Some(token), "somebody else got in");
        assert!(stage.mutex(&observer, "x").try_lock().await.unwrap().is_none());
        tokio::time::sleep(stage.ttl() / 10).await;
    }
    let same = tokio::task::spawn_blocking(move || thread.join()).await.unwrap().expect("it held the lock");
    assert_eq!(same, token);
}

pub(crate) async fn a_vanished_holder_is_freed_in_bounds(stage: Stage) {
    let each = Cut::ALL.map(|cut| {
        let stage = stage.clone();
        async move {
            let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
            let name = format!("{cut:?}");
            let _guard = stage.mutex(&a, &name).lock().await.unwrap();
            wire.cut(cut);
            // Renewals that arrive although their answers do not keep it until its holder gives up.
            let bound = stage.ttl() + stage.freed_by_lease();
            let next = tokio::time::timeout(bound, stage.mutex(&b, &name).lock()).await;
            drop(next.unwrap_or_else(|_| panic!("{cut:?}: not free within {bound:?}")).unwrap());
        }
    });
    futures_util::future::join_all(each).await;
}

pub(crate) async fn an_evicted_holder_is_told_before_anybody_gets_in(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x");
    let next = spawn(async move {
        let guard = mutex.lock().await.unwrap();
        (Clock::Boot.now(), guard)
    });
    let place = stage.until_waiting(&b, "x", 1).await.places[0].id;
    assert!(b.evict(stage.name("x"), place).await.unwrap(), "there is such a claim");
    tokio::time::timeout(stage.ttl() + BUSY_MACHINE, guard.lost()).await.expect("told by its next renewal");
    let told = Clock::Boot.now();
    assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
    // It does not let go: the place is taken until its lease is over.
    let (granted, _next) = tokio::time::timeout(stage.freed_by_lease(), next).await.expect("in time").unwrap();
    assert!(told <= granted, "told {:?} after the grant", told.since(granted));
}

pub(crate) async fn an_evicted_holder_that_lets_go_frees_the_lock(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    // Such a long lease that only letting go can free it in time.
    let lease = stage.ttl() * 6;
    let guard = stage.mutex(&a, "x").ttl(lease).lock().await.unwrap();
    let place = stage.line(&b, "x").await.expect("held").places[0].id;
    assert!(b.evict(stage.name("x"), place).await.unwrap(), "there is such a claim");
    tokio::time::timeout(lease, guard.lost()).await.expect("told by its next renewal");
    drop(guard);
    stage.nothing_left(&b, BUSY_MACHINE).await;
}

/// Evicts the only waiter, and gives what it is told. A quorum's waiter may have gone to the end of the line meanwhile,
/// with another claim: then that one is evicted, too.
async fn evict_waiter(stage: &Stage, by: &Locks, waiter: Task<Result<Guard>>) -> (PublicId, Result<Guard>) {
    let mut waiter = std::pin::pin!(waiter);
    loop {
        let place = stage.until_waiting(by, "x", 1).await.places[1].id;
        assert!(by.evict(stage.name("x"), place).await.unwrap(), "there is such a claim");
        match tokio::time::timeout(stage.ttl() + BUSY_MACHINE, &mut waiter).await {
            Ok(told) => return (place, told.unwrap()),
            Err(_) => assert_eq!(stage.guarantees().exclusion, Exclusion::Quorum, "not told"),
        }
    }
}

pub(crate) async fn an_evicted_waiter_is_told(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x");
    let waiter = spawn(async move { mutex.lock().await });
    let (place, told) = evict_waiter(&stage, &a, waiter).await;
    assert_eq!(told.unwrap_err().kind(), Kind::Evicted);
    assert_eq!(stage.count(&a, "x").await, (1, 0));
    guard.check().expect("the holder is left alone");
    assert!(!a.evict(stage.name("x"), place).await.unwrap() || stage.count(&a, "x").await == (1, 0));
}

pub(crate) async fn an_evicted_waiter_is_told_although_its_wake_up_is_lost(stage: Stage) {
    let (a, (b, gate)) = (stage.client().await, stage.gated().await);
    gate.set(Verb::Moved, Mode::Hang);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x");
    let waiter = spawn(async move { mutex.lock().await });
    let (_, told) = evict_waiter(&stage, &a, waiter).await;
    assert_eq!(told.unwrap_err().kind(), Kind::Evicted);
    assert_eq!(stage.count(&a, "x").await, (1, 0), "it got in line again");
    guard.release().await.unwrap();
}

pub(crate) async fn nobody_is_evicted_by_mistake(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let stranger = lockhouse_core::ClaimId::random().public();
    assert!(!b.evict(stage.name("x"), stranger).await.unwrap());
    assert!(!b.evict(stage.name("y"), stranger).await.unwrap());
    let place = stage.line(&b, "x").await.expect("held").places[0].id;
    assert!(!b.evict(stage.name("y"), place).await.unwrap(), "it is in another line");
    tokio::time::sleep(stage.ttl() / 2).await;
    guard.check().unwrap();
    assert_eq!(stage.count(&b, "x").await, (1, 0));
}
