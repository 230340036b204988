//! Many readers together, or one writer alone.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Kind, Locks, RwLock};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::eventually::eventually;
use crate::inside::Inside;
use crate::stage::{BUSY_MACHINE, LONG, Stage};
use crate::task::spawn;
use crate::wire::Cut;

fn rwlock(stage: &Stage, locks: &Locks, name: &str) -> RwLock {
    locks.rwlock(stage.name(name)).ttl(stage.ttl())
}

pub(crate) async fn many_readers_are_in_together(stage: Stage) {
    const READERS: usize = 10;
    let together = Arc::new(Barrier::new(READERS));
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let (lock, together) = (rwlock(&stage, &stage.client().await, "x"), Arc::clone(&together));
        readers.spawn(async move {
            let guard = lock.read().await.unwrap();
            // Nobody gets past this before all are in.
            tokio::time::timeout(LONG, together.wait()).await.expect("all readers get in");
            guard.check().unwrap();
        });
    }
    while let Some(done) = readers.join_next().await {
        done.unwrap();
    }
}

pub(crate) async fn a_writer_is_alone(stage: Stage) {
    let (readers, writers) = (Inside::default(), Inside::default());
    let mut workers = JoinSet::new();
    for who in 0..6 {
        let lock = rwlock(&stage, &stage.client().await, "x");
        let (readers, writers, rounds) = (readers.clone(), writers.clone(), stage.paced(30).max(5));
        workers.spawn(async move {
            for round in 0..rounds {
                if (who + round) % 3 == 0 {
                    let guard = lock.write().await.unwrap();
                    let visit = writers.enter();
                    assert_eq!((readers.now(), writers.now()), (0, 1), "a writer is not alone");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    assert_eq!((readers.now(), writers.now()), (0, 1), "a writer is not alone");
                    drop(visit);
                    guard.into_guard().release().await.unwrap();
                } else {
                    let guard = lock.read().await.unwrap();
                    let visit = readers.enter();
                    assert_eq!(writers.now(), 0, "a reader is in with a writer");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    drop(visit);
                    guard.release().await.unwrap();
                }
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    assert_eq!(writers.most(), 1);
}

pub(crate) async fn tries_are_refused_beside_a_writer(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let writer = rwlock(&stage, &a, "x").try_write().await.unwrap().expect("nobody is in");
    assert!(rwlock(&stage, &b, "x").try_read().await.unwrap().is_none());
    assert!(rwlock(&stage, &b, "x").try_write().await.unwrap().is_none());
    drop(writer);
    stage.nothing_left(&b, BUSY_MACHINE).await;
    let reader = rwlock(&stage, &a, "x").try_read().await.unwrap().expect("nobody is in");
    assert!(rwlock(&stage, &b, "x").try_write().await.unwrap().is_none());
    assert!(rwlock(&stage, &b, "x").try_read().await.unwrap().is_some());
    drop(reader);
}

pub(crate) async fn a_waiting_writer_is_not_starved_by_new_readers(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let first = rwlock(&stage, &a, "x").read().await.unwrap();
    let lock = rwlock(&stage, &b, "x");
    let writer = spawn(async move { lock.write().await });
    stage.until_waiting(&a, "x", 1).await;
    assert!(rwlock(&stage, &a, "x").try_read().await.unwrap().is_none(), "a new reader passed a waiting writer");
    let lock = rwlock(&stage, &a, "x");
    let late = spawn(async move { lock.read().await });
    stage.until_waiting(&a, "x", 2).await;
    first.release().await.unwrap();
    let writer = tokio::time::timeout(LONG, writer).await.expect("the writer is next").unwrap().unwrap();
    assert!(!late.is_finished(), "a reader is in with a writer");
    drop(writer);
    drop(tokio::time::timeout(LONG, late).await.expect("then the reader").unwrap().unwrap());
}

pub(crate) async fn a_downgrade_leaves_no_gap(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let writer = rwlock(&stage, &a, "x").write().await.unwrap();
    let token = writer.token();
    let lock = rwlock(&stage, &b, "x");
    let reading = spawn(async move { lock.read().await });
    stage.until_waiting(&a, "x", 1).await;
    let lock = rwlock(&stage, &b, "x");
    let writing = spawn(async move { lock.write().await });
    stage.until_waiting(&a, "x", 2).await;
    let reader = writer.downgrade().await.expect("a writer becomes a reader");
    assert_eq!(reader.token(), token, "the token stays");
    let other = tokio::time::timeout(LONG, reading).await.expect("waiting readers get in").unwrap().unwrap();
    assert!(!writing.is_finished(), "a writer got in through the downgrade");
    assert_eq!(stage.count(&a, "x").await, (2, 1));
    // It is kept as a reader, too.
    tokio::time::sleep(stage.ttl() * 3 / 2).await;
    reader.check().unwrap();
    other.release().await.unwrap();
    assert!(!writing.is_finished(), "a writer is in with a reader");
    reader.release().await.unwrap();
    drop(tokio::time::timeout(LONG, writing).await.expect("then the writer").unwrap().unwrap());
}

pub(crate) async fn one_reader_that_vanishes_frees_only_itself(stage: Stage) {
    let ((a, wire), b, c) = (stage.cuttable().await, stage.client().await, stage.client().await);
    let dead = rwlock(&stage, &a, "x").read().await.unwrap();
    let alive = rwlock(&stage, &b, "x").read().await.unwrap();
    wire.cut(Cut::Silent);
    let lock = rwlock(&stage, &c, "x");
    let writing = spawn(async move { lock.write().await });
    let one_left = async || stage.count(&b, "x").await == (1, 1);
    eventually(stage.freed_by_lease(), "the dead reader leaves", one_left).await;
    assert!(!writing.is_finished(), "a writer is in with a reader");
    alive.check().expect("the other reader stays");
    alive.release().await.unwrap();
    let in_time = tokio::time::timeout(stage.freed_by_lease(), writing).await;
    drop(in_time.expect("the dead reader blocks nobody").unwrap().unwrap());
    assert_eq!(dead.check().unwrap_err().kind(), Kind::Lost);
}

pub(crate) async fn read_write_locks_are_refused(stage: Stage) {
    let locks = stage.client().await;
    let lock = rwlock(&stage, &locks, "x");
    for error in [lock.read().await.unwrap_err(), lock.try_write().await.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    }
}
