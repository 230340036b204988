//! The same owner again.

use lockhouse_core::{Kind, Owner, Release};

use crate::stage::{BUSY_MACHINE, Stage};
use crate::task::spawn;

pub(crate) async fn without_an_owner_the_second_lock_is_refused(stage: Stage) {
    let locks = stage.client().await;
    let guard = stage.mutex(&locks, "x").lock().await.unwrap();
    assert!(stage.mutex(&locks, "x").try_lock().await.unwrap().is_none());
    let error = stage.mutex(&locks, "x").wait(BUSY_MACHINE).lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    assert!(stage.mutex(&locks, "x").wait(BUSY_MACHINE).lock_in_time().await.unwrap().is_none());
    guard.check().unwrap();
}

pub(crate) async fn as_many_releases_as_locks(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let owner = Owner::new("alice");
    let mutex = stage.mutex(&a, "x").owner(&owner);
    let mut guards = vec![mutex.lock().await.unwrap()];
    guards.push(mutex.try_lock().await.unwrap().expect("the same owner"));
    guards.push(mutex.lock().await.unwrap());
    assert_eq!(stage.count(&b, "x").await, (1, 0), "a second place was taken");
    while let Some(guard) = guards.pop() {
        assert!(stage.mutex(&b, "x").try_lock().await.unwrap().is_none(), "a partial release let somebody in");
        let last = guards.is_empty();
        assert_eq!(guard.release().await.unwrap(), if last { Release::Freed } else { Release::Shared });
    }
    assert!(stage.mutex(&b, "x").try_lock().await.unwrap().is_some(), "the last release frees it");
}

pub(crate) async fn entering_again_returns_the_same_token(stage: Stage) {
    let locks = stage.client().await;
    let mutex = stage.mutex(&locks, "x").owner(&Owner::new("alice"));
    let first = mutex.lock().await.unwrap();
    let second = mutex.lock().await.unwrap();
    assert_eq!(first.token(), second.token());
    let token = first.token();
    drop(first);
    second.check().expect("the other guard still holds it");
    second.release().await.unwrap();
    assert!(mutex.lock().await.unwrap().token() > token, "a new hold has a new token");
}

pub(crate) async fn two_owners_of_one_process_exclude_each_other(stage: Stage) {
    let locks = stage.client().await;
    // The same label: who it is does not depend on what it is called.
    let (alice, other_alice) = (Owner::new("alice"), Owner::new("alice"));
    let guard = stage.mutex(&locks, "x").owner(&alice).lock().await.unwrap();
    let other = stage.mutex(&locks, "x").owner(&other_alice);
    assert!(other.try_lock().await.unwrap().is_none());
    assert_eq!(other.clone().wait(BUSY_MACHINE).lock().await.unwrap_err().kind(), Kind::Busy);
    assert!(stage.mutex(&locks, "x").try_lock().await.unwrap().is_none(), "nobody's lock entered alice's");
    // Who gave up may still be on its way out of the line.
    stage.until_waiting(&locks, "x", 0).await;
    guard.release().await.unwrap();
    assert!(other.try_lock().await.unwrap().is_some());
}

pub(crate) async fn tasks_of_one_owner_share_one_claim(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let blocker = stage.mutex(&b, "x").lock().await.unwrap();
    let mutex = stage.mutex(&a, "x").owner(&Owner::new("alice"));
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let mutex = mutex.clone();
            spawn(async move { mutex.lock().await })
        })
        .collect();
    stage.until_waiting(&b, "x", 1).await;
    blocker.release().await.unwrap();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(task.await.unwrap().unwrap());
    }
    assert!(guards.iter().all(|guard| guard.token() == guards[0].token()), "one owner, one hold");
    assert_eq!(stage.count(&b, "x").await, (1, 0));
}

pub(crate) async fn a_part_is_not_enlarged_by_entering_again(stage: Stage) {
    let locks = stage.client().await;
    let rwlock = locks.rwlock(stage.name("x")).ttl(stage.ttl()).owner(&Owner::new("alice"));
    let reader = rwlock.read().await.unwrap();
    for error in [rwlock.write().await.unwrap_err(), rwlock.try_write().await.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
    reader.release().await.unwrap();
    let writer = rwlock.write().await.unwrap();
    let reader = rwlock.read().await.expect("a writer may read");
    assert_eq!(writer.token(), reader.token());
}
