//! A client that is killed is noticed at once, and nobody else is taken for dead.

mod clients;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use clients::{Killed, child, claim, client, eager, files, part, token, until, wait};
use lockhouse_core::{Renewal, Standing};

/// Far longer than the engine promises, since the machine may be busy, and far shorter than any lease here.
const SOON: Duration = Duration::from_secs(10);

/// A child that holds `a`, or that waits for it.
async fn holder(path: &Path, part: &str) -> Killed {
    let mut killed = Killed(child("plays_a_part", part, path, &[]).spawn().unwrap());
    let ready = path.with_extension(part);
    until("the child", async || ready.exists() || killed.0.try_wait().unwrap().is_some()).await;
    assert!(ready.exists(), "the child failed");
    killed
}

#[tokio::test]
async fn plays_a_part() {
    let Some((part, path)) = part() else { return };
    let client = client(&path).await;
    let mut held = claim("a");
    held.lingers = part == "lingers";
    match part.as_str() {
        "holds" | "lingers" => _ = token(client.front.claim(&held).await.unwrap()),
        "waits" => assert!(matches!(client.front.claim(&held).await.unwrap(), Standing::Queued { .. })),
        other => panic!("no part {other}"),
    }
    fs::write(path.with_extension(&part), b"").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_holder_gives_way_to_a_waiter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let mut holder = holder(&path, "holds").await;
    let client = client(&path).await;
    let mine = claim("a");
    assert!(matches!(client.front.claim(&mine).await.unwrap(), Standing::Queued { ahead: 1 }));
    let moved = client.front.moved(&mine);
    tokio::pin!(moved);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut moved).await.is_err(), "the holder lives");
    holder.kill();
    let killed = Instant::now();
    token(tokio::time::timeout(SOON, moved).await.unwrap().unwrap().unwrap());
    assert!(killed.elapsed() < SOON);
}

#[tokio::test]
async fn a_killed_holder_gives_way_to_a_newcomer_without_patience() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let mut holder = holder(&path, "holds").await;
    let client = client(&path).await;
    assert_eq!(client.front.claim(&eager("a")).await.unwrap(), Standing::Refused);
    holder.kill();
    until("the lock", async || client.front.claim(&eager("a")).await.unwrap() != Standing::Refused).await;
}

#[tokio::test]
async fn a_killed_waiter_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let client = client(&path).await;
    let (first, last) = (claim("a"), claim("a"));
    token(client.front.claim(&first).await.unwrap());
    let mut waiter = holder(&path, "waits").await;
    assert!(matches!(client.front.claim(&last).await.unwrap(), Standing::Queued { ahead: 2 }));
    waiter.kill();
    // For a moment the engine still trusts what it saw.
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.front.withdraw(&first).await.unwrap();
    token(client.front.claim(&last).await.unwrap());
}

#[tokio::test]
async fn a_claim_that_lingers_outlives_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let mut holder = holder(&path, "lingers").await;
    holder.kill();
    let client = client(&path).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(client.front.claim(&eager("a")).await.unwrap(), Standing::Refused);
}

#[tokio::test]
async fn upkeep_removes_what_the_dead_left_under_names_that_nobody_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let mut holder = holder(&path, "holds").await;
    holder.kill();
    let _client = client(&path).await;
    let count = || {
        let claims = "SELECT count(*) FROM claims WHERE name = 'a'";
        rusqlite::Connection::open(&path).unwrap().query_row(claims, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(count(), 1);
    until("upkeep", async || {
        count() == 0 && files(folder.path()).iter().filter(|file| file.contains("-client-")).count() == 1
    })
    .await;
}

#[tokio::test]
async fn a_client_dropped_with_claims_left_is_as_good_as_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (client(&path).await, client(&path).await);
    token(one.front.claim(&claim("a")).await.unwrap());
    assert_eq!(two.front.claim(&eager("a")).await.unwrap(), Standing::Refused);
    drop(one);
    until("the lock", async || two.front.claim(&eager("a")).await.unwrap() != Standing::Refused).await;
}

#[tokio::test]
async fn a_missing_file_is_no_proof_of_death() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (client(&path).await, client(&path).await);
    let held = claim("a");
    token(one.front.claim(&held).await.unwrap());
    for file in files(folder.path()).iter().filter(|file| file.contains("-client-")) {
        fs::remove_file(folder.path().join(file)).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(two.front.claim(&eager("a")).await.unwrap(), Standing::Refused);
    assert_eq!(one.keeper.renew(&[held]).await.unwrap(), [Renewal::Renewed]);
}

#[tokio::test]
async fn a_child_process_does_not_keep_its_dead_parent_alive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (client(&path).await, client(&path).await);
    token(one.front.claim(&claim("a")).await.unwrap());
    let _sleeper = Killed(std::process::Command::new("sleep").arg("60").spawn().unwrap());
    drop(one);
    tokio::time::timeout(SOON, wait(&two.front, &claim("a"))).await.unwrap();
}
