//! The server fails, or somebody tampers with it.

use std::time::Duration;

use lockhouse_core::{Clock, Guard, Kind, Locks, Loss, Release};

use crate::eventually::eventually;
use crate::stage::{BUSY_MACHINE, LONG, Stage};
use crate::subject::{OwnServer, Shared};
use crate::task::spawn;

/// Longer than any election, and than a leader is made to stand still: etcd before 3.4.31 would then end the lease.
const ELECTION: Duration = Duration::from_secs(20);

async fn own(stage: &Stage) -> (Stage, OwnServer) {
    let own = stage.subject().own_server().await.expect("needed");
    (stage.on(std::sync::Arc::clone(&own.subject)), own)
}

pub(crate) async fn what_an_administrator_deletes_is_told(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    stage.subject().saboteur().expect("needed").remove(&stage.checked("x")).await;
    let loss = tokio::time::timeout(stage.ttl() + BUSY_MACHINE, guard.lost()).await.expect("told");
    assert!(matches!(loss, Loss::Gone | Loss::Expired), "{loss:?}");
    assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
    let next = tokio::time::timeout(stage.freed_by_lease(), stage.mutex(&b, "x").lock()).await;
    drop(next.expect("the name can be locked again").unwrap());
}

pub(crate) async fn a_waiter_that_was_deleted_gets_in_line_again(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    let mutex = stage.mutex(&b, "x");
    let waiter = spawn(async move { mutex.lock().await });
    stage.until_waiting(&a, "x", 1).await;
    stage.subject().saboteur().expect("needed").remove(&stage.checked("x")).await;
    let next = tokio::time::timeout(stage.freed_by_lease() + stage.ttl(), waiter).await;
    drop(next.expect("it is not stranded").unwrap().unwrap());
    drop(guard);
}

pub(crate) async fn a_server_that_is_down_at_the_start_is_a_clear_error(stage: Stage) {
    let (stage, own) = own(&stage).await;
    own.server.stop().await;
    // An engine may connect at once or at its first request.
    let answer = tokio::time::timeout(LONG, async {
        let locks = Locks::new(Shared(stage.subject().connector())).await?;
        stage.mutex(&locks, "x").lock().await.map(drop)
    });
    let error = answer.await.expect("an answer in bounded time").expect_err("nobody is there");
    assert!(matches!(error.kind(), Kind::Unreachable | Kind::TimedOut), "{error}");
    own.server.start().await;
    let locks = stage.client().await;
    drop(stage.mutex(&locks, "x").lock().await.expect("it is there now"));
}

pub(crate) async fn a_restart_keeps_a_lock_or_tells_of_its_loss(stage: Stage) {
    let (stage, own) = own(&stage).await;
    let (a, b) = (stage.client().await, stage.client().await);
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    own.server.stop().await;
    own.server.start().await;
    // Whatever the server remembers: whoever gets in now must not be in beside a holder that believes to hold.
    eventually(LONG, "the line moves on, or the lock is kept", async || {
        let other = stage.mutex(&b, "x").try_lock().await;
        let kept = guard.check().is_ok();
        match other {
            Ok(Some(_)) => {
                assert!(!kept, "two holders after a restart");
                true
            }
            Ok(None) if kept => guard.valid_for() > stage.ttl() / 2,
            _ => false,
        }
    })
    .await;
}

pub(crate) async fn tokens_grow_across_a_restart(stage: Stage) {
    let (stage, own) = own(&stage).await;
    let mut newest = 0;
    for _ in 0..3 {
        let locks = stage.client().await;
        let guard = stage.mutex(&locks, "x").lock().await.unwrap();
        assert!(guard.token() > newest, "the token {} does not grow past {newest}", guard.token());
        newest = guard.token();
        guard.release().await.unwrap();
        own.server.stop().await;
        own.server.start().await;
    }
}

pub(crate) async fn a_server_that_stands_still_costs_the_lock_in_time(stage: Stage) {
    let (stage, own) = own(&stage).await;
    let locks = stage.client().await;
    let guard = stage.mutex(&locks, "x").lock().await.unwrap();
    own.server.pause().await;
    tokio::time::timeout(stage.ttl() + BUSY_MACHINE, guard.lost()).await.expect("told before its lease is over");
    own.server.resume().await;
    drop(guard);
    let next = tokio::time::timeout(LONG, stage.mutex(&locks, "x").lock()).await;
    drop(next.expect("it works again").unwrap());
}

pub(crate) async fn an_election_shorter_than_a_lease_loses_nothing(stage: Stage) {
    let (stage, own) = own(&stage).await;
    let members = own.members.as_ref().expect("needed");
    for pause in [false, true] {
        let (a, b) = (stage.client().await, stage.client().await);
        let guard = stage.mutex(&a, "x").ttl(ELECTION).lock().await.unwrap();
        let lease = guard.valid_for();
        if pause {
            members.pause_leader().await;
        } else {
            members.stop_leader().await;
        }
        is_kept(&stage, &guard, lease, &b).await;
        members.restore().await;
        is_kept(&stage, &guard, lease, &b).await;
        let token = guard.token();
        assert_eq!(guard.release().await.unwrap(), Release::Freed);
        let next = tokio::time::timeout(LONG, stage.mutex(&b, "x").ttl(ELECTION).lock()).await;
        let next = next.expect("it is free").unwrap();
        assert!(next.token() > token);
        assert_eq!(next.release().await.unwrap(), Release::Freed);
    }
}

/// The lock is renewed by a request that is sent from now on, and nobody else gets in.
async fn is_kept(stage: &Stage, guard: &Guard, lease: Duration, other: &Locks) {
    let since = Clock::Boot.now();
    eventually(LONG, "the lock is renewed", async || {
        guard.check().expect("no false loss");
        Clock::Boot.now() + guard.valid_for() >= since + lease
    })
    .await;
    eventually(LONG, "somebody else gets an answer", async || {
        match stage.mutex(other, "x").ttl(ELECTION).try_lock().await {
            Ok(second) => {
                assert!(second.is_none(), "two hold the lock");
                true
            }
            // A member that fails may take a request of this client's with it.
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                false
            }
        }
    })
    .await;
    guard.check().expect("no false loss");
}

pub(crate) async fn tokens_grow_across_the_loss_of_members(stage: Stage) {
    let (stage, own) = own(&stage).await;
    let members = own.members.as_ref().expect("needed");
    let mut newest = 0;
    for _ in 0..3 {
        let locks = stage.client().await;
        let guard = stage.mutex(&locks, "x").ttl(LONG).lock().await.unwrap();
        assert!(guard.token() > newest, "the token {} does not grow past {newest}", guard.token());
        newest = guard.token();
        guard.release().await.unwrap();
        members.stop_leader().await;
        let locks = stage.client().await;
        let guard = stage.mutex(&locks, "x").ttl(LONG).lock().await.unwrap();
        assert!(guard.token() > newest, "the token {} does not grow past {newest}", guard.token());
        newest = guard.token();
        guard.release().await.unwrap();
        members.restore().await;
    }
}

pub(crate) async fn without_a_majority_nobody_gets_in_and_the_holder_is_told(stage: Stage) {
    let (stage, own) = own(&stage).await;
    let members = own.members.as_ref().expect("needed");
    let (a, b) = (stage.client().await, stage.client().await);
    // What a holder takes off for clocks that differ is more than a busy machine takes to wake its keeper.
    let ttl = stage.ttl() * 3;
    let guard = stage.mutex(&a, "x").ttl(ttl).lock().await.unwrap();
    members.stop_majority().await;
    tokio::time::timeout(ttl, guard.lost()).await.expect("told before its lease is over");
    assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
    for name in ["x", "y"] {
        let other = tokio::time::timeout(LONG, stage.mutex(&b, name).try_lock()).await.expect("in bounded time");
        other.expect_err("nobody can promise anything");
    }
    members.restore().await;
    drop(guard);
    for locks in [&a, &b] {
        eventually(LONG * 2, "the lock can be had again", async || {
            match stage.mutex(locks, "x").ttl(ttl).lock().await {
                Ok(guard) => guard.release().await.unwrap() == Release::Freed,
                Err(error) => {
                    assert!(error.is_transient(), "{error}");
                    false
                }
            }
        })
        .await;
    }
}
