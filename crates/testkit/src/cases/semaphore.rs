//! As many as there are permits.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Kind, Locks, Semaphore};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::inside::Inside;
use crate::stage::{LONG, Stage};
use crate::task::spawn;
use crate::wire::Cut;

fn semaphore(stage: &Stage, locks: &Locks, permits: u32) -> Semaphore {
    locks.semaphore(stage.name("x"), permits).ttl(stage.ttl())
}

pub(crate) async fn never_above_its_permits(stage: Stage) {
    let inside = Inside::default();
    let mut workers = JoinSet::new();
    for who in 0..6 {
        let (semaphore, inside) = (semaphore(&stage, &stage.client().await, 4), inside.clone());
        let rounds = stage.paced(30).max(5);
        workers.spawn(async move {
            for round in 0..rounds {
                let permits = (who + round) % 3 + 1;
                let guard = semaphore.acquire(permits).await.unwrap();
                let visit = inside.enter_with(permits);
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(visit);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    assert!(inside.most() <= 4, "{} of 4 permits were out", inside.most());
}

pub(crate) async fn all_permits_can_be_had(stage: Stage) {
    let together = Arc::new(Barrier::new(3));
    let mut holders = JoinSet::new();
    for _ in 0..3 {
        let (semaphore, together) = (semaphore(&stage, &stage.client().await, 3), Arc::clone(&together));
        holders.spawn(async move {
            let guard = semaphore.acquire(1).await.unwrap();
            tokio::time::timeout(LONG, together.wait()).await.expect("as many get in as there are permits");
            assert!(semaphore.try_acquire(1).await.unwrap().is_none(), "one too many");
            together.wait().await;
            guard.release().await.unwrap();
        });
    }
    while let Some(done) = holders.join_next().await {
        done.unwrap();
    }
    let locks = stage.client().await;
    assert!(semaphore(&stage, &locks, 3).try_acquire(3).await.unwrap().is_some(), "all came back");
}

pub(crate) async fn more_than_there_are_is_a_mistake(stage: Stage) {
    let locks = stage.client().await;
    for permits in [0, 4, u32::MAX] {
        let error = semaphore(&stage, &locks, 3).acquire(permits).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{permits}: {error}");
    }
    let error = semaphore(&stage, &locks, 0).try_acquire(1).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    stage.nothing_left(&locks, Duration::ZERO).await;
}

pub(crate) async fn clients_that_disagree_about_its_size_are_told(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = semaphore(&stage, &a, 3).acquire(1).await.unwrap();
    for size in [2, 4] {
        let waiting = tokio::time::timeout(LONG, semaphore(&stage, &b, size).acquire(1)).await;
        let error = waiting.expect("told at once").unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        let error = semaphore(&stage, &b, size).try_acquire(1).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
    }
    guard.check().expect("the holder is not disturbed");
    guard.release().await.unwrap();
    // Nobody is in line any more, so there is nobody to disagree with.
    assert!(semaphore(&stage, &b, 4).try_acquire(4).await.unwrap().is_some());
}

pub(crate) async fn a_vanished_holders_permits_come_back(stage: Stage) {
    let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
    let _dead = semaphore(&stage, &a, 3).acquire(2).await.unwrap();
    let alive = semaphore(&stage, &b, 3).acquire(1).await.unwrap();
    wire.cut(Cut::Silent);
    let back = tokio::time::timeout(stage.freed_by_lease(), semaphore(&stage, &b, 3).acquire(2)).await;
    let back = back.expect("the permits come back").unwrap();
    alive.check().unwrap();
    back.check().unwrap();
}

pub(crate) async fn a_large_request_is_not_starved_by_small_ones(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let first = semaphore(&stage, &a, 3).acquire(2).await.unwrap();
    let large = semaphore(&stage, &b, 3);
    let large = spawn(async move { large.acquire(3).await });
    stage.until_waiting(&a, "x", 1).await;
    // One permit is free, and would always be taken by somebody small.
    assert!(semaphore(&stage, &a, 3).try_acquire(1).await.unwrap().is_none(), "a small one passed a large one");
    first.release().await.unwrap();
    drop(tokio::time::timeout(LONG, large).await.expect("the large one is next").unwrap().unwrap());
}

pub(crate) async fn semaphores_are_refused(stage: Stage) {
    let locks = stage.client().await;
    let error = semaphore(&stage, &locks, 3).acquire(1).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}
