//! Nobody else is in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockhouse_core::{Owner, Release};
use tokio::task::JoinSet;

use crate::history::{History, Hold, spanned};
use crate::inside::Inside;
use crate::stage::{LONG, Stage};

pub(crate) async fn a_second_try_is_refused_and_changes_nothing(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").try_lock().await.unwrap().expect("nobody holds it");
    let before = stage.line(&b, "x").await.expect("it is held");
    for locks in [&a, &b] {
        assert!(stage.mutex(locks, "x").try_lock().await.unwrap().is_none(), "held twice");
    }
    let after = stage.line(&b, "x").await.expect("it is held");
    assert_eq!(after.places.len(), 1, "a refused claim left something behind: {after:?}");
    assert_eq!((after.places[0].id, after.places[0].token), (before.places[0].id, before.places[0].token));
    guard.check().expect("the holder is not disturbed");
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
    assert!(stage.mutex(&b, "x").try_lock().await.unwrap().is_some(), "free again");
}

pub(crate) async fn different_names_never_block_each_other(stage: Stage) {
    let locks = stage.client().await;
    let mut guards = Vec::new();
    for i in 0..stage.paced(100) {
        guards.push(stage.enduring(&locks, &format!("{i}")).try_lock().await.unwrap().expect("another name"));
    }
    guards.iter().for_each(|guard| guard.check().unwrap());
}

pub(crate) async fn take_and_give_back_many_times(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let mut newest = 0;
    for i in 0..stage.paced(500) {
        let locks = if i % 3 == 0 { &b } else { &a };
        let guard = stage.enduring(locks, "x").try_lock().await.unwrap().expect("given back before");
        assert!(guard.token() > newest, "the token {} does not grow past {newest}", guard.token());
        newest = guard.token();
        assert_eq!(guard.release().await.unwrap(), Release::Freed);
    }
}

pub(crate) async fn a_hundred_tasks_are_never_two_inside(stage: Stage) {
    let clients = [stage.client().await, stage.client().await, stage.client().await, stage.client().await];
    let inside = Inside::default();
    let mut tasks = JoinSet::new();
    for i in 0..100 {
        let (mutex, inside) = (stage.enduring(&clients[i % 4], "x"), inside.clone());
        tasks.spawn(async move {
            let guard = mutex.lock().await.unwrap();
            let visit = inside.enter();
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(visit);
            guard.release().await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!((inside.most(), inside.entered()), (1, 100));
}

pub(crate) async fn separate_processes_lose_no_update(stage: Stage) {
    const PROCESSES: usize = 4;
    const TIMES: usize = 25;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0").unwrap();
    // An enduring lease: a request may take no longer than its lease, and a busy machine takes its time.
    let (path, ttl) = (file.path().to_str().unwrap(), (LONG * 2).as_millis().to_string());
    let mut takers = Vec::new();
    for _ in 0..PROCESSES {
        takers.push(stage.taker().await);
    }
    for taker in &mut takers {
        taker.tell(&["increment", path, &stage.name("x"), &ttl, &TIMES.to_string()]).await;
    }
    for taker in &mut takers {
        assert_eq!(taker.answer().await, "done");
    }
    let sum = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(sum, (PROCESSES * TIMES).to_string(), "an update was lost");
}

pub(crate) async fn no_update_of_a_counter_is_lost(stage: Stage) {
    const WORKERS: u64 = 8;
    let rounds = u64::from(stage.paced(100).max(10));
    let counter = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (mutex, counter) = (stage.enduring(&stage.client().await, "x"), Arc::clone(&counter));
        workers.spawn(async move {
            for _ in 0..rounds {
                let guard = mutex.lock().await.unwrap();
                let seen = counter.load(Ordering::SeqCst);
                tokio::time::sleep(Duration::from_micros(100)).await;
                counter.store(seen + 1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), WORKERS * rounds, "an update was lost");
}

pub(crate) async fn a_history_fits_a_mutex_that_knows_its_owner(stage: Stage) {
    let history = History::default();
    // Without one line for all, two that try at the same time may each be in the other's way.
    let explains_refusals = stage.subject().guarantees().fair;
    let mut workers = JoinSet::new();
    for owner in 0..6 {
        let (mutex, history) = (stage.enduring(&stage.client().await, "x"), history.clone());
        let rounds = stage.paced(60).max(10);
        workers.spawn(async move {
            for round in 0..rounds {
                let (guard, lock) = if round % 3 == 0 {
                    let (guard, span) = spanned(mutex.lock()).await;
                    (Some(guard.unwrap()), span)
                } else {
                    let (guard, span) = spanned(mutex.try_lock()).await;
                    (guard.unwrap(), span)
                };
                let Some(guard) = guard else {
                    if explains_refusals {
                        history.refused(lock);
                    }
                    // Long enough for the others to get on with it, of a length that nobody else sleeps.
                    tokio::time::sleep(Duration::from_micros(300 + 70 * owner as u64)).await;
                    continue;
                };
                tokio::time::sleep(Duration::from_micros(200)).await;
                let token = guard.token();
                let (released, release) = spanned(guard.release()).await;
                assert_eq!(released.unwrap(), Release::Freed);
                history.held(Hold { token, lock, release });
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    let (holds, _) = history.judge().unwrap_or_else(|why| panic!("{why}"));
    assert!(holds > 10, "the history is too short to show anything: {holds} holds");
}

pub(crate) async fn tokens_grow_across_owners_and_clients(stage: Stage) {
    let mut newest = 0;
    for round in 0..5 {
        let locks = stage.client().await;
        let owner = Owner::new(format!("owner {round}"));
        for mutex in [stage.mutex(&locks, "x"), stage.mutex(&locks, "x").owner(&owner)] {
            let guard = mutex.lock().await.unwrap();
            assert!(guard.token() > newest, "the token {} does not grow past {newest}", guard.token());
            newest = guard.token();
            guard.release().await.unwrap();
        }
        locks.close(LONG).await.unwrap();
    }
}

pub(crate) async fn tokens_grow_when_every_client_was_gone(stage: Stage) {
    let (name, ttl) = (stage.name("x"), stage.ttl().as_millis().to_string());
    let mut newest = 0;
    for _ in 0..3 {
        let mut taker = stage.taker().await;
        let token = taker.take(&["lock", &name, &ttl]).await;
        assert!(token > newest, "the token {token} does not grow past {newest}");
        newest = token;
        assert_eq!(taker.ask(&["release", &name]).await, "Freed");
        taker.end().await;
    }
}
