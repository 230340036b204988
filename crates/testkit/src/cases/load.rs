//! Leaks and load.

use std::time::Duration;

use lockhouse_core::{Claim, Clock, Patience, Standing};
use tokio::task::JoinSet;

use crate::alone::{alone, descriptors, threads};
use crate::eventually::eventually;
use crate::inside::Inside;
use crate::stage::{BUSY_MACHINE, LONG, Raw, Stage};

pub(crate) async fn many_cycles_leave_nothing_behind(stage: Stage) {
    if !alone(stage.test()).await {
        return;
    }
    let (a, b) = (stage.client().await, stage.client().await);
    let cycle = async |i: u32| {
        let locks = if i.is_multiple_of(2) { &a } else { &b };
        let guard = stage.enduring(locks, &format!("{}", i % 7)).lock().await.unwrap();
        match i % 5 {
            0 => drop(guard),
            _ => drop(guard.release().await.unwrap()),
        }
        if i.is_multiple_of(50) {
            // A wait that is given up.
            let held = stage.enduring(&a, "held").lock().await.unwrap();
            // Shorter than the answer of a slow engine may take, which is then an error.
            let given_up = stage.mutex(&b, "held").wait(Duration::from_millis(1)).lock_in_time().await;
            assert!(!matches!(given_up, Ok(Some(_))), "it is held");
            held.release().await.unwrap();
        }
    };
    let clients = async |number: usize| {
        for _ in 0..number {
            stage.client().await.close(LONG).await.unwrap();
        }
    };
    // Whatever is made once and kept is there after the first few.
    for i in 0..stage.paced(500) {
        cycle(i).await;
    }
    clients(20).await;
    let before = (descriptors(), threads());
    for i in 0..stage.paced(5_000) {
        cycle(i).await;
    }
    clients(60).await;
    stage.nothing_left(&a, BUSY_MACHINE).await;
    // A leak is one for each client or each cycle, so sixty at the least. The threads of closed clients may still be on
    // their way out, and an engine may keep a few descriptors for the next time: SQLite closes no file while another
    // connection of the process has a lock on it, and a quorum has five of them.
    let settled = async || descriptors() < before.0 + 40 && threads() < before.1 + 20;
    if tokio::time::timeout(LONG, eventually(LONG * 2, "settled", settled)).await.is_err() {
        let now = (descriptors(), threads());
        panic!("{before:?} descriptors and threads have become {now:?}");
    }
}

pub(crate) async fn many_try_and_release_on_one_name(stage: Stage) {
    let inside = Inside::default();
    let rounds = stage.paced(10_000);
    // An enduring lease, since a request may take no longer than its lease, and here everybody is in everybody's way.
    let mut workers = JoinSet::new();
    for _ in 0..16 {
        let (mutex, inside) = (stage.enduring(&stage.client().await, "x"), inside.clone());
        workers.spawn(async move {
            let mut granted = 0;
            for _ in 0..rounds {
                if let Some(guard) = mutex.try_lock().await.unwrap() {
                    let visit = inside.enter();
                    tokio::task::yield_now().await;
                    drop(visit);
                    guard.release().await.unwrap();
                    granted += 1;
                }
            }
            granted
        });
    }
    let mut granted = 0;
    while let Some(done) = workers.join_next().await {
        granted += done.unwrap();
    }
    assert_eq!((inside.most(), inside.entered()), (1, granted));
    let locks = stage.client().await;
    stage.nothing_left(&locks, BUSY_MACHINE).await;
    assert!(stage.mutex(&locks, "x").try_lock().await.unwrap().is_some());
}

pub(crate) async fn a_thousand_waiters_all_get_their_turn(stage: Stage) {
    let waiters = stage.paced(1_000);
    let clients = [stage.client().await, stage.client().await, stage.client().await, stage.client().await];
    let lease = stage.ttl() * 10;
    let blocker = stage.mutex(&clients[0], "x").ttl(lease).lock().await.unwrap();
    let inside = Inside::default();
    let mut tasks = JoinSet::new();
    for i in 0..waiters {
        let (mutex, inside) = (stage.mutex(&clients[i as usize % 4], "x").ttl(lease), inside.clone());
        tasks.spawn(async move {
            let guard = mutex.lock().await.unwrap();
            let visit = inside.enter();
            tokio::task::yield_now().await;
            drop(visit);
            guard.release().await.unwrap();
        });
    }
    stage.until_waiting(&clients[0], "x", waiters as usize).await;
    blocker.release().await.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!((inside.most(), inside.entered()), (1, waiters));
    stage.nothing_left(&clients[0], BUSY_MACHINE).await;
}

/// How long it takes to hand a lock on, with that many in line: the best of some.
async fn hand_over(stage: &Stage, raw: &Raw, waiters: usize) -> Duration {
    const TURNS: usize = 10;
    const BEST_OF: usize = 20;
    let lease = LONG * 10;
    let name = format!("line of {waiters}");
    let claim = || Claim { ttl: lease, ..stage.claim(&name, Patience::Waits) };
    let mut line = std::collections::VecDeque::new();
    for _ in 0..=waiters {
        let claim = claim();
        raw.engine.claim(&claim).await.unwrap();
        line.push_back(claim);
    }
    let mut best = Duration::MAX;
    for _ in 0..BEST_OF {
        let turns = TURNS.min(waiters);
        for _ in 0..turns {
            let holder = line.pop_front().expect("somebody holds it");
            // Each by itself: on a busy machine one of them is not interrupted.
            let started = Clock::Boot.now();
            raw.engine.withdraw(&holder).await.unwrap();
            let standing = raw.engine.claim(&line[0]).await.unwrap();
            best = best.min(Clock::Boot.now().since(started));
            assert!(matches!(standing, Standing::Granted { .. }), "{standing:?}");
        }
        for _ in 0..turns {
            let claim = claim();
            raw.engine.claim(&claim).await.unwrap();
            line.push_back(claim);
        }
    }
    for claim in line.into_iter().rev() {
        raw.engine.withdraw(&claim).await.unwrap();
    }
    best
}

pub(crate) async fn a_grant_costs_the_same_however_many_wait(stage: Stage) {
    if !alone(stage.test()).await {
        return;
    }
    let raw = stage.raw().await;
    let few = hand_over(&stage, &raw, 10).await;
    let many = hand_over(&stage, &raw, stage.paced(10_000).max(100) as usize).await;
    // Generous, and still nowhere near what looking at every waiter would cost.
    let bound = few * 10 + Duration::from_micros(20);
    assert!(many <= bound, "a grant takes {few:?} with 10 in line and {many:?} with many");
}
