//! Cells: the optimistic lock, and a resource that checks tokens.

use std::time::Duration;

use lockhouse_core::{Cell, Kind, Write, Written};
use tokio::task::JoinSet;

use crate::gate::{Mode, Verb};
use crate::polled::dropped_after_every_poll;
use crate::stage::Stage;
use crate::wire::Cut;

fn number(value: &[u8]) -> u64 {
    if value.is_empty() { 0 } else { String::from_utf8(value.to_vec()).unwrap().parse().unwrap() }
}

fn one_more(value: &[u8]) -> Vec<u8> {
    (number(value) + 1).to_string().into_bytes()
}

pub(crate) async fn a_cell_is_written_only_at_the_version_that_was_read(stage: Stage) {
    let (a, b) = (stage.client().await, stage.client().await);
    let (ours, theirs) = (a.cell(stage.name("x")), b.cell(stage.name("x")));
    assert_eq!(ours.read().await.unwrap(), Cell::default());
    let Written::Yes { version: first } = ours.write_if(0, "one").await.unwrap() else { panic!("nobody wrote it") };
    assert_eq!(theirs.write_if(0, "two").await.unwrap(), Written::Changed { version: first });
    assert_eq!(theirs.read().await.unwrap(), Cell { version: first, token: 0, value: b"one".to_vec() });
    let Written::Yes { version: second } = theirs.write_if(first, "two").await.unwrap() else { panic!("as read") };
    assert!(second > first, "versions grow");
    let Written::Yes { version: third } = ours.write("three").await.unwrap() else { panic!("no condition") };
    assert!(third > second, "versions grow");
    assert_eq!(ours.write_if(second, "four").await.unwrap(), Written::Changed { version: third });
    // Another cell, and the lock of the same name, are something else.
    assert_eq!(a.cell(stage.name("y")).read().await.unwrap(), Cell::default());
    assert!(stage.mutex(&a, "x").try_lock().await.unwrap().is_some());
}

pub(crate) async fn a_cell_keeps_any_bytes(stage: Stage) {
    let locks = stage.client().await;
    let cell = locks.cell(stage.name("x"));
    let every_byte: Vec<u8> = (0..=255).collect();
    for value in [vec![], vec![0], every_byte, b"'; DROP TABLE cells; --".to_vec(), vec![b'x'; 16 * 1024]] {
        cell.write(value.clone()).await.unwrap();
        assert_eq!(cell.read().await.unwrap().value, value);
    }
}

pub(crate) async fn no_concurrent_update_is_lost(stage: Stage) {
    const WORKERS: u64 = 4;
    let rounds = u64::from(stage.paced(20).max(5));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (locks, gate) = stage.gated().await;
        // Time enough between reading and writing for somebody else to come between, on the fastest engine too.
        gate.set(Verb::Read, Mode::Late(Duration::from_millis(1)));
        let cell = locks.cell(stage.name("x"));
        workers.spawn(async move {
            let mut done = 0;
            while done < rounds {
                match cell.update(one_more).await {
                    Ok(_) => done += 1,
                    // Others were faster many times in a row, which is told and not hidden.
                    Err(error) => assert_eq!(error.kind(), Kind::Busy, "{error}"),
                }
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    let cell = stage.client().await.cell(stage.name("x")).read().await.unwrap();
    assert_eq!(number(&cell.value), WORKERS * rounds, "an update was lost");
}

pub(crate) async fn an_older_token_is_refused_once_a_newer_one_was_seen(stage: Stage) {
    let locks = stage.client().await;
    let cell = locks.cell(stage.name("x"));
    assert!(matches!(cell.fenced(5).write("five").await.unwrap(), Written::Yes { .. }));
    assert!(matches!(cell.fenced(5).write("five again").await.unwrap(), Written::Yes { .. }), "the same holder");
    assert!(matches!(cell.fenced(9).write("nine").await.unwrap(), Written::Yes { .. }));
    assert_eq!(cell.fenced(5).write("late").await.unwrap(), Written::Stale { newest: 9 });
    let seen = cell.read().await.unwrap();
    assert_eq!((seen.token, seen.value.as_slice()), (9, b"nine".as_slice()));
    assert_eq!(cell.fenced(8).write_if(seen.version, "late").await.unwrap(), Written::Stale { newest: 9 });
    // Who has no token does not lower the newest one.
    assert!(matches!(cell.write("none").await.unwrap(), Written::Yes { .. }));
    assert_eq!(cell.read().await.unwrap().token, 9);
    assert_eq!(cell.fenced(8).write("late").await.unwrap(), Written::Stale { newest: 9 });
}

pub(crate) async fn a_write_whose_reply_is_lost_is_written_once(stage: Stage) {
    let (locks, gate) = stage.gated().await;
    let cell = locks.cell(stage.name("x"));
    let first = cell.update(one_more).await.unwrap();
    // The engine answers a repetition as it answered the first.
    let engine = stage.raw().await.engine;
    let write = Write { id: rand::random(), value: b"2".to_vec(), if_version: Some(first.version), token: None };
    let written = engine.write(&stage.checked("x"), &write).await.unwrap();
    assert!(matches!(written, Written::Yes { .. }), "{written:?}");
    assert_eq!(engine.write(&stage.checked("x"), &write).await.unwrap(), written);
    // And so does the client see it: the answers are lost for a while, and the number is what it should be.
    gate.set(Verb::Write, Mode::LoseReply);
    let error = cell.update(one_more).await.expect_err("no answer ever comes");
    assert_eq!(error.may_have_happened(), lockhouse_core::Happened::Unknown, "{error}");
    gate.set(Verb::Write, Mode::Pass);
    assert_eq!(number(&cell.read().await.unwrap().value), 3, "written once");
    assert_eq!(number(&cell.update(one_more).await.unwrap().value), 4);
}

pub(crate) async fn a_dropped_update_is_written_wholly_or_not_at_all(stage: Stage) {
    let (locks, gate) = stage.gated().await;
    let mut least = 0;
    for mode in [Mode::Pass, Mode::Late(Duration::from_millis(2)), Mode::Straggle(Duration::from_millis(2))] {
        gate.set(Verb::Write, mode);
        gate.set(Verb::Read, mode);
        let cell = locks.cell(stage.name("x"));
        let (polls, last) = dropped_after_every_poll(|_| cell.update(one_more)).await;
        last.unwrap();
        least += 1;
        let value = number(&cell.read().await.unwrap().value);
        let most = least + u64::from(polls);
        assert!((least..=most).contains(&value), "{mode:?}: {value} after {least} to {most} updates");
        least = value;
    }
}

pub(crate) async fn no_update_is_lost_while_holders_stand_still(stage: Stage) {
    const WORKERS: usize = 3;
    const ROUNDS: usize = 3;
    let cell_name = stage.name("cell");
    let mut workers = JoinSet::new();
    for who in 0..WORKERS {
        let (stage, cell_name) = (stage.clone(), cell_name.clone());
        workers.spawn(async move {
            let (locks, wire) = stage.cuttable().await;
            let mut written = 0;
            for round in 0..ROUNDS {
                let Ok(guard) = stage.mutex(&locks, "x").lock().await else { continue };
                let cell = locks.cell(&cell_name).fenced(guard.token());
                // The mark of a new holder: from here on the cell refuses every older token.
                let Ok(seen) = cell.update(|value| value.to_vec()).await else { continue };
                if round == who {
                    // Stands still past its lease, notices nothing, and goes on as if nothing had happened.
                    wire.cut(Cut::Silent);
                    tokio::time::sleep(stage.ttl() * 3 / 2).await;
                    wire.mend();
                }
                // No version here: the token alone protects the cell.
                match cell.write(one_more(&seen.value)).await {
                    Ok(Written::Yes { .. }) => written += 1,
                    Ok(Written::Stale { .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
            written
        });
    }
    let mut written = 0;
    while let Some(done) = workers.join_next().await {
        written += done.unwrap();
    }
    let cell = stage.client().await.cell(&cell_name).read().await.unwrap();
    assert_eq!(number(&cell.value), written, "an update was lost");
    assert!(written >= (WORKERS * ROUNDS - WORKERS) as u64, "only {written} got through");
}

pub(crate) async fn cells_are_refused(stage: Stage) {
    let locks = stage.client().await;
    let cell = locks.cell(stage.name("x"));
    assert_eq!(cell.read().await.unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(cell.write("x").await.unwrap_err().kind(), Kind::Unsupported);
}
