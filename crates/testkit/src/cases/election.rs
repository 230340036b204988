//! Elections.

use lockhouse_core::{Kind, Leader, Locks};

use crate::eventually::eventually;
use crate::stage::{BUSY_MACHINE, LONG, Stage};
use crate::task::spawn;
use crate::wire::Cut;

fn election(stage: &Stage, locks: &Locks, note: &str) -> lockhouse_core::Election {
    locks.election(stage.name("x")).ttl(stage.ttl()).note(note)
}

pub(crate) async fn one_leads_and_all_can_see_who(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    assert_eq!(election(&stage, &b, "b").leader().await.unwrap(), None);
    let term = election(&stage, &a, "a").campaign().await.unwrap();
    let leader: Leader = election(&stage, &b, "b").leader().await.unwrap().expect("a leads");
    assert_eq!((leader.note.as_deref(), leader.token), (Some("a"), term.token()));
    let candidate = election(&stage, &b, "b");
    let second = spawn(async move { candidate.campaign().await });
    stage.until_waiting(&a, "x", 1).await;
    assert_eq!(election(&stage, &b, "b").leader().await.unwrap().expect("a leads").token, term.token());
    let first_term = term.token();
    term.resign().await.unwrap();
    let term = tokio::time::timeout(LONG, second).await.expect("b is next").unwrap().unwrap();
    assert!(term.token() > first_term, "every term has a newer token");
}

pub(crate) async fn an_observer_sees_every_change_that_lasts(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let mut observer = election(&stage, &b, "b").observe();
    let mut next = async || tokio::time::timeout(LONG, observer.next()).await.expect("a change is seen").unwrap();
    assert_eq!(next().await, None, "nobody leads at first");
    let term = election(&stage, &a, "a").campaign().await.unwrap();
    assert_eq!(next().await.expect("a leads").token, term.token());
    term.resign().await.unwrap();
    assert_eq!(next().await, None);
}

pub(crate) async fn a_leader_that_vanishes_is_told_and_replaced(stage: Stage) {
    let ((a, wire), b) = (stage.cuttable().await, stage.client().await);
    let term = election(&stage, &a, "a").campaign().await.unwrap();
    wire.cut(Cut::Silent);
    let next = tokio::time::timeout(stage.freed_by_lease(), election(&stage, &b, "b").campaign()).await;
    let next = next.expect("b leads in time").unwrap();
    assert!(next.token() > term.token());
    assert_eq!(term.check().unwrap_err().kind(), Kind::Lost, "two leaders");
}

pub(crate) async fn a_candidate_that_gives_up_leaves_the_line(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let term = election(&stage, &a, "a").campaign().await.unwrap();
    let candidate = election(&stage, &b, "b");
    let campaign = spawn(async move { candidate.campaign().await });
    stage.until_waiting(&a, "x", 1).await;
    campaign.abort();
    eventually(BUSY_MACHINE, "it leaves the line", async || stage.count(&a, "x").await == (1, 0)).await;
    drop(term);
    stage.nothing_left(&b, BUSY_MACHINE).await;
}
