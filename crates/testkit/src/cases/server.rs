//! The server fails, or somebody tampers with it.

use lockhouse_core::{Kind, Locks, Loss};

use crate::eventually::eventually;
use crate::stage::{BUSY_MACHINE, LONG, Stage};
use crate::subject::{OwnServer, Shared};
use crate::task::spawn;

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
        let locks = stage.client().await;
        // Longer than any election.
        let guard = stage.mutex(&locks, "x").ttl(LONG).lock().await.unwrap();
        if pause {
            members.pause_leader().await;
        } else {
            members.stop_leader().await;
        }
        eventually(LONG, "the members have a leader again", async || {
            stage.mutex(&locks, "y").ttl(LONG).try_lock().await.is_ok_and(|guard| guard.is_some())
        })
        .await;
        guard.check().expect("no false loss");
        members.restore().await;
        guard.check().expect("no false loss");
        guard.release().await.unwrap();
    }
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
    let guard = stage.mutex(&a, "x").lock().await.unwrap();
    members.stop_majority().await;
    tokio::time::timeout(stage.ttl() + BUSY_MACHINE, guard.lost()).await.expect("told before its lease is over");
    let other = tokio::time::timeout(LONG, stage.mutex(&b, "y").try_lock()).await.expect("in bounded time");
    other.expect_err("nobody can promise anything");
    members.restore().await;
}
