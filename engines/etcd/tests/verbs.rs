//! The verbs one by one, where etcd has ways of its own.

mod servers;

use std::time::Duration;

use lockhouse_core::{Claim, Engine, Kind, Patience, Renewal, Standing, Withdrawal};
use lockhouse_testkit::claim;
use servers::{Cluster, client, etcdctl, left_over, prefix, shared};

async fn granted(engine: &dyn Engine, claim: &Claim) -> u64 {
    match engine.claim(claim).await.unwrap() {
        Standing::Granted { token } => token,
        other => panic!("{other:?}"),
    }
}

async fn queued(engine: &dyn Engine, claim: &Claim) {
    let standing = engine.claim(claim).await.unwrap();
    assert!(matches!(standing, Standing::Queued { .. }), "{standing:?}");
}

fn reader() -> Claim {
    Claim { capacity: u32::MAX, ..claim("a") }
}

fn writer() -> Claim {
    Claim { weight: u32::MAX, ..reader() }
}

/// A deletion that a waiter waits for, when the history is compacted at so many revisions after the holder's claim.
async fn is_told_although_compacted_after(revisions: u64) {
    // Of its own, so that nobody else writes to it.
    let cluster = Cluster::start(1);
    let (address, prefix) = (cluster.address(), prefix());
    let client = client(&address, &prefix).await;
    let (first, second) = (claim("a"), claim("a"));
    let token = granted(&*client.front, &first).await;
    queued(&*client.front, &second).await;
    client.front.withdraw(&first).await.unwrap();
    assert!(etcdctl(&address, &["put", &format!("{prefix}later"), ""]).status.success());
    let compacted = etcdctl(&address, &["compaction", &(token + revisions).to_string()]);
    assert!(compacted.status.success(), "{compacted:?}");
    let moved = tokio::time::timeout(Duration::from_secs(5), client.front.moved(&second)).await;
    assert_eq!(moved.expect("it is told to ask again").unwrap(), None);
    assert!(granted(&*client.front, &second).await > token);
    client.front.withdraw(&second).await.unwrap();
}

#[tokio::test]
async fn a_watch_that_begins_before_the_last_compaction_is_no_dead_end() {
    // The deletion is not told any more: the history begins with the write after it.
    is_told_although_compacted_after(3).await;
}

#[tokio::test]
async fn a_deletion_at_which_the_history_is_compacted_is_not_missed() {
    // The history begins with the deletion, and etcd had forgotten it all the same for years (its issue 18089).
    is_told_although_compacted_after(2).await;
}

#[tokio::test]
async fn a_line_longer_than_one_look_is_walked_to_its_end() {
    const READERS: usize = 70;
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    let readers: Vec<Claim> = (0..READERS).map(|_| reader()).collect();
    let mut newest = 0;
    for reader in &readers {
        let token = granted(&*client.front, reader).await;
        assert!(token > newest);
        newest = token;
    }
    let (writer, late) = (writer(), reader());
    queued(&*client.front, &writer).await;
    queued(&*client.front, &late).await;
    let tried = Claim { patience: Patience::None, ..reader() };
    assert_eq!(client.front.claim(&tried).await.unwrap(), Standing::Refused);
    client.front.withdraw(&writer).await.unwrap();
    assert!(granted(&*client.front, &late).await > newest);
    assert!(granted(&*client.front, &tried).await > newest);
    for claim in readers.iter().chain([&late, &tried]) {
        assert_eq!(client.front.withdraw(claim).await.unwrap(), Withdrawal::Withdrawn);
    }
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn whoever_of_several_leaves_lets_the_next_one_in() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    // So few that each is watched, and so many that the whole line is.
    for permits in [3, 20] {
        let permit = || Claim { capacity: permits, ..claim(&format!("a {permits}")) };
        for leaves in [0, 1, permits - 1] {
            let mut holders: Vec<Claim> = (0..permits).map(|_| permit()).collect();
            for holder in &holders {
                granted(&*client.front, holder).await;
            }
            let next = permit();
            queued(&*client.front, &next).await;
            let gone = holders.remove(usize::try_from(leaves).unwrap());
            let moved = client.front.moved(&next);
            let leave = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                client.front.withdraw(&gone).await.unwrap();
            };
            let (moved, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(5), moved), leave);
            assert_eq!(moved.expect("it is told").unwrap(), None);
            granted(&*client.front, &next).await;
            for claim in holders.iter().chain([&next]) {
                assert_eq!(client.front.withdraw(claim).await.unwrap(), Withdrawal::Withdrawn);
            }
        }
    }
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn a_writer_that_becomes_a_reader_keeps_its_token_and_lets_readers_in() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    let (writer, next) = (writer(), reader());
    let token = granted(&*client.front, &writer).await;
    queued(&*client.front, &next).await;
    let lighter = Claim { weight: 1, ..writer.clone() };
    assert_eq!(granted(&*client.front, &lighter).await, token);
    let moved = tokio::time::timeout(Duration::from_secs(5), client.front.moved(&next)).await;
    assert_eq!(moved.expect("it is told").unwrap(), None);
    granted(&*client.front, &next).await;
    assert_eq!(client.front.claim(&writer).await.unwrap_err().kind(), Kind::Invalid);
    let late = Claim { floor: u64::MAX, ..reader() };
    assert_eq!(client.front.claim(&late).await.unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(left_over(&address, &prefix).len(), 2, "a claim that was refused left something behind");
    for claim in [&writer, &next] {
        client.front.withdraw(claim).await.unwrap();
    }
}

#[tokio::test]
async fn a_claim_that_lingers_is_left_as_it_is() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    // Its key was another's before.
    let before = claim("a");
    granted(&*client.front, &before).await;
    client.front.withdraw(&before).await.unwrap();
    let short = Claim { ttl: Duration::from_secs(2), ..claim("a") };
    let token = granted(&*client.front, &short).await;
    let last = Claim { lingers: true, ..short.clone() };
    assert_eq!(client.keeper.renew(std::slice::from_ref(&last)).await.unwrap(), [Renewal::Renewed]);
    // Neither a renewal that was on its way nor a claim gives it more time.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(client.keeper.renew(std::slice::from_ref(&short)).await.unwrap(), [Renewal::Renewed]);
        assert_eq!(granted(&*client.front, &short).await, token);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(client.keeper.renew(std::slice::from_ref(&short)).await.unwrap(), [Renewal::Gone]);
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn a_mutex_in_a_folder_with_many_others_is_free_all_the_same() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    let below: Vec<Claim> = (0..10).map(|at| claim(&format!("a/{at}"))).collect();
    for claim in &below {
        granted(&*client.front, claim).await;
    }
    for patience in [Patience::None, Patience::Waits] {
        let upper = Claim { patience, ..claim("a") };
        granted(&*client.front, &upper).await;
        let other = Claim { patience: Patience::None, ..claim("a") };
        assert_eq!(client.front.claim(&other).await.unwrap(), Standing::Refused);
        client.front.withdraw(&upper).await.unwrap();
    }
    let lines = client.front.survey("a").await.unwrap();
    assert_eq!(lines.len(), below.len());
    for claim in &below {
        client.front.withdraw(claim).await.unwrap();
    }
}

#[tokio::test]
async fn claims_one_after_the_other_use_one_key_and_claims_beside_each_other_do_not() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    let (mut keys, mut before) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let claim = claim("a");
        granted(&*client.front, &claim).await;
        keys.extend(left_over(&address, &prefix));
        assert_eq!(client.keeper.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
        before.push(claim);
    }
    keys.dedup();
    assert_eq!(keys.len(), 1, "{keys:?}");
    // Withdrawing those before once more does nothing to the one that has their key now.
    let (second, third) = (claim("a"), claim("a"));
    granted(&*client.front, &second).await;
    for first in &before {
        assert_eq!(client.keeper.withdraw(first).await.unwrap(), Withdrawal::NotThere);
        let renewed = client.keeper.renew(&[first.clone(), second.clone()]).await.unwrap();
        assert_eq!(renewed, [Renewal::Gone, Renewal::Renewed]);
    }
    assert_eq!(left_over(&address, &prefix), keys);
    queued(&*client.front, &third).await;
    assert_eq!(left_over(&address, &prefix).len(), 2);
    for claim in [&second, &third] {
        assert_eq!(client.front.withdraw(claim).await.unwrap(), Withdrawal::Withdrawn);
    }
}
