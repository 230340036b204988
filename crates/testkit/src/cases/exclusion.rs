//! Nobody else is in.

use std::time::Duration;

use lockhouse_core::Release;
use tokio::task::JoinSet;

use crate::inside::Inside;
use crate::stage::Stage;

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
        guards.push(stage.mutex(&locks, &format!("{i}")).try_lock().await.unwrap().expect("another name"));
    }
    guards.iter().for_each(|guard| guard.check().unwrap());
}

pub(crate) async fn take_and_give_back_many_times(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let mut newest = 0;
    for i in 0..stage.paced(500) {
        let locks = if i % 3 == 0 { &b } else { &a };
        let guard = stage.mutex(locks, "x").try_lock().await.unwrap().expect("given back before");
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
        let (mutex, inside) = (stage.mutex(&clients[i % 4], "x"), inside.clone());
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
    let (path, ttl) = (file.path().to_str().unwrap(), stage.ttl().as_millis().to_string());
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
