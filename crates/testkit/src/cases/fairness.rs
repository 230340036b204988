//! Order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockhouse_core::{Kind, Mutex};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::inside::Inside;
use crate::stage::{LONG, Stage};
use crate::task::spawn;
use crate::wire::Cut;

/// Waits for the lock, says who it is when it has it, and lets go.
fn waits(tasks: &mut JoinSet<()>, mutex: Mutex, who: u32, order: &mpsc::UnboundedSender<u32>) {
    let order = order.clone();
    tasks.spawn(async move {
        let guard = mutex.lock().await.unwrap();
        order.send(who).unwrap();
        guard.release().await.unwrap();
    });
}

async fn collect(mut order: mpsc::UnboundedReceiver<u32>) -> Vec<u32> {
    let mut seen = Vec::new();
    while let Some(who) = tokio::time::timeout(LONG, order.recv()).await.expect("the line moves on") {
        seen.push(who);
    }
    seen
}

pub(crate) async fn first_come_first_served(stage: Stage) {
    let observer = stage.client().await;
    let blocker = stage.mutex(&observer, "x").lock().await.unwrap();
    let (tell, order) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for who in 0..8 {
        let locks = stage.client().await;
        waits(&mut tasks, stage.mutex(&locks, "x"), who, &tell);
        stage.until_waiting(&observer, "x", who as usize + 1).await;
    }
    drop(tell);
    blocker.release().await.unwrap();
    assert_eq!(collect(order).await, (0..8).collect::<Vec<_>>());
}

pub(crate) async fn a_dead_waiter_at_the_head_is_skipped(stage: Stage) {
    let (observer, (dying, wire)) = (stage.client().await, stage.cuttable().await);
    let blocker = stage.mutex(&observer, "x").lock().await.unwrap();
    let mutex = stage.mutex(&dying, "x");
    let dead = spawn(async move { mutex.lock().await });
    stage.until_waiting(&observer, "x", 1).await;
    let next = stage.client().await;
    let mutex = stage.mutex(&next, "x");
    let second = spawn(async move { mutex.lock().await });
    stage.until_waiting(&observer, "x", 2).await;
    wire.cut(Cut::Silent);
    blocker.release().await.unwrap();
    let served = tokio::time::timeout(stage.freed_by_lease() + stage.ttl() / 2, second).await;
    drop(served.expect("the dead one is skipped in time").unwrap().unwrap());
    dead.abort();
}

pub(crate) async fn everybody_gets_a_turn(stage: Stage) {
    const WORKERS: usize = 6;
    let rounds = stage.paced(30).max(5);
    let turns: Arc<Vec<AtomicU32>> = Arc::new((0..WORKERS).map(|_| AtomicU32::new(0)).collect());
    let mut workers = JoinSet::new();
    for me in 0..WORKERS {
        let (mutex, turns) = (stage.enduring(&stage.client().await, "x"), Arc::clone(&turns));
        workers.spawn(async move {
            for _ in 0..rounds {
                let guard = mutex.lock().await.unwrap();
                turns[me].fetch_add(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    assert!(turns.iter().all(|turns| turns.load(Ordering::SeqCst) == rounds));
}

pub(crate) async fn who_comes_back_stands_behind_those_who_wait(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let (tell, order) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    waits(&mut tasks, stage.mutex(&b, "x"), 1, &tell);
    stage.until_waiting(&a, "x", 1).await;
    waits(&mut tasks, stage.mutex(&a, "x"), 2, &tell);
    stage.until_waiting(&a, "x", 2).await;
    drop(tell);
    guard.release().await.unwrap();
    assert_eq!(collect(order).await, [1, 2]);
}

pub(crate) async fn a_higher_priority_goes_ahead_of_waiters_and_not_of_holders(stage: Stage) {
    let observer = stage.client().await;
    let blocker = stage.mutex(&observer, "x").lock().await.unwrap();
    let (tell, order) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for (waiting, (who, priority)) in [(1, 0), (2, -5), (3, 7), (4, 0), (5, 7)].into_iter().enumerate() {
        waits(&mut tasks, stage.mutex(&observer, "x").priority(priority), who, &tell);
        stage.until_waiting(&observer, "x", waiting + 1).await;
    }
    drop(tell);
    blocker.check().expect("nobody goes ahead of a holder");
    assert_eq!(stage.count(&observer, "x").await, (1, 5));
    blocker.release().await.unwrap();
    assert_eq!(collect(order).await, [3, 5, 1, 4, 2]);
}

pub(crate) async fn priorities_are_refused(stage: Stage) {
    let locks = stage.client().await;
    let error = stage.mutex(&locks, "x").priority(1).try_lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}

pub(crate) async fn barging_excludes_all_the_same(stage: Stage) {
    let inside = Inside::default();
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let (mutex, inside) = (stage.enduring(&stage.client().await, "x").barging(), inside.clone());
        let rounds = stage.paced(50).max(5);
        workers.spawn(async move {
            for _ in 0..rounds {
                let guard = mutex.lock().await.unwrap();
                let visit = inside.enter();
                tokio::task::yield_now().await;
                drop(visit);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    assert_eq!(inside.most(), 1);
}
