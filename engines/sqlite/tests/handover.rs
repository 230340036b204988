//! From one client to the next: pushed, never lost, never to two at once.

mod clients;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clients::{Killed, child, claim, client, files, part, token, until, wait};
use lockhouse_core::{Claim, Clock, Kind, Standing};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_pushed_to_another_client_far_faster_than_it_polls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (client(&path).await, client(&path).await);
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let (held, next) = (claim("a"), claim("a"));
        token(one.front.claim(&held).await.unwrap());
        assert!(matches!(two.front.claim(&next).await.unwrap(), Standing::Queued { ahead: 1 }));
        let moved = {
            let (front, next) = (Arc::clone(&two.front), next.clone());
            #[expect(clippy::disallowed_methods, reason = "awaited below")]
            tokio::spawn(async move { front.moved(&next).await.map(|moved| (moved, Instant::now())) })
        };
        tokio::time::sleep(Duration::from_millis(15)).await;
        let released = Instant::now();
        one.front.withdraw(&held).await.unwrap();
        let (standing, at) = moved.await.unwrap().unwrap();
        token(standing.unwrap());
        fastest = fastest.min(at - released);
        two.front.withdraw(&next).await.unwrap();
    }
    assert!(fastest < Duration::from_millis(10), "the fastest of twenty took {fastest:?}");
}

#[tokio::test]
async fn a_waiter_of_the_same_client_is_told_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let one = client(&folder.path().join("locks.db")).await;
    let (held, next) = (claim("a"), claim("a"));
    token(one.front.claim(&held).await.unwrap());
    one.front.claim(&next).await.unwrap();
    let (moved, _) = tokio::join!(one.front.moved(&next), async {
        tokio::task::yield_now().await;
        // By the other side, as when a guard is dropped.
        one.keeper.withdraw(&held).await.unwrap()
    });
    token(moved.unwrap().unwrap());
}

#[tokio::test]
async fn a_grant_between_asking_and_waiting_is_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (client(&path).await, client(&path).await);
    let (held, next) = (claim("a"), claim("a"));
    token(one.front.claim(&held).await.unwrap());
    two.front.claim(&next).await.unwrap();
    one.front.withdraw(&held).await.unwrap();
    token(two.front.moved(&next).await.unwrap().unwrap());
    assert_eq!(two.front.moved(&claim("a")).await.unwrap(), None, "not in line at all");
}

#[tokio::test]
async fn a_lost_ring_is_made_up_for_by_the_poll() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (client(&path).await, client(&path).await);
    let (held, next) = (claim("a"), claim("a"));
    token(one.front.claim(&held).await.unwrap());
    two.front.claim(&next).await.unwrap();
    let moved = two.front.moved(&next);
    tokio::pin!(moved);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut moved).await.is_err());
    for bell in files(folder.path()).iter().filter(|file| file.ends_with("-bell")) {
        std::fs::remove_file(folder.path().join(bell)).unwrap();
    }
    one.front.withdraw(&held).await.unwrap();
    token(tokio::time::timeout(Duration::from_secs(10), moved).await.unwrap().unwrap().unwrap());
}

#[tokio::test]
async fn a_waiter_that_another_client_evicts_is_told_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (client(&path).await, client(&path).await);
    let next = claim("a");
    token(one.front.claim(&claim("a")).await.unwrap());
    two.front.claim(&next).await.unwrap();
    let moved = two.front.moved(&next);
    tokio::pin!(moved);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut moved).await.is_err());
    assert!(one.front.evict(&next.name, &next.id.public()).await.unwrap());
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), moved).await.unwrap().unwrap(), None);
    assert_eq!(two.front.claim(&next).await.unwrap(), Standing::Refused);
}

/// Takes turns with everybody else, and watches that nobody else is in and that tokens grow.
async fn take_turns(
    engine: Arc<dyn lockhouse_core::Engine>,
    turns: u32,
    inside: Arc<AtomicU64>,
    newest: Arc<AtomicU64>,
) {
    for _ in 0..turns {
        let claim = claim("a");
        let token = wait(&engine, &claim).await;
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
        assert!(newest.swap(token, Ordering::SeqCst) < token, "a token went back");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        engine.withdraw(&claim).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_one_process_take_turns_and_nobody_is_left_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (inside, newest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let clients = [client(&path).await, client(&path).await, client(&path).await];
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12 {
        let engine = Arc::clone(&clients[number % clients.len()].front);
        tasks.spawn(take_turns(engine, 25, Arc::clone(&inside), Arc::clone(&newest)));
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
}

#[tokio::test]
async fn plays_a_part() {
    let Some((part, path)) = part() else { return };
    let client = client(&path).await;
    assert_eq!(part, "count");
    // Reads, lets others run, writes: every update is lost that the lock does not protect.
    let counter = path.with_extension("counter");
    for _ in 0..50 {
        let claim = claim("a");
        wait(&client.front, &claim).await;
        let count: u64 = std::fs::read_to_string(&counter).unwrap().parse().unwrap();
        tokio::time::sleep(Duration::from_micros(200)).await;
        std::fs::write(&counter, (count + 1).to_string()).unwrap();
        client.front.withdraw(&claim).await.unwrap();
    }
}

#[tokio::test]
async fn processes_lose_no_update_even_when_one_is_killed_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let counter = path.with_extension("counter");
    std::fs::write(&counter, "0").unwrap();
    let mut children: Vec<_> = (0..3).map(|_| child("plays_a_part", "count", &path, &[]).spawn().unwrap()).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(std::fs::read_to_string(&counter).unwrap(), "150");

    let mut killed = Killed(child("plays_a_part", "count", &path, &[]).spawn().unwrap());
    until("some progress", async || std::fs::read_to_string(&counter).unwrap() != "150").await;
    killed.kill();
    let client = client(&path).await;
    tokio::time::timeout(Duration::from_secs(10), wait(&client.front, &claim("a"))).await.unwrap();
}

#[tokio::test]
async fn a_file_that_stays_locked_is_told_in_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let one = client(&path).await;
    let backup = rusqlite::Connection::open(&path).unwrap();
    backup.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begin = Clock::Boot.now();
    let error = one.front.claim(&Claim { ttl: Duration::from_millis(300), ..claim("a") }).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TimedOut);
    assert_eq!(error.may_have_happened(), lockhouse_core::Happened::No);
    assert!(Clock::Boot.now().since(begin) >= Duration::from_millis(300));
    backup.execute_batch("ROLLBACK").unwrap();
    token(one.front.claim(&claim("a")).await.unwrap());
}

#[tokio::test]
async fn after_a_new_start_of_the_machine_no_claim_counts_and_tokens_have_jumped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let one = client(&path).await;
    let name = lockhouse_core::Name::new("a").unwrap();
    let write = lockhouse_core::Write { id: [1; 16], value: b"kept".to_vec(), if_version: None, token: None };
    one.front.write(&name, &write).await.unwrap();
    let before = token(one.front.claim(&claim("a")).await.unwrap());
    drop(one);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("UPDATE boot SET id = '00000000-0000-4000-8000-000000000000 0 0'").unwrap();
    drop(file);
    let two = client(&path).await;
    let after = token(two.front.claim(&claim("a")).await.unwrap());
    assert!(after >= before + (1 << 32), "{before} {after}");
    assert_eq!(two.front.read(&name).await.unwrap().value, b"kept");
    // And only once.
    let three = client(&path).await;
    assert!(matches!(three.front.claim(&claim("a")).await.unwrap(), Standing::Queued { ahead: 1 }));
}
