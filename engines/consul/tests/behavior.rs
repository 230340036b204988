//! Sessions that end without deleting their keys: what stays behind counts for nobody, and is cleared away.

mod servers;

use std::time::Duration;

use lockhouse_consul::Behavior;
use lockhouse_core::{Claim, Engine, Standing};
use lockhouse_testkit::{Sides, claim};
use servers::{connector, http, left_over, port, prefix, shared};

/// Longer than it takes until a client looks after what it has met.
const A_WHILE: Duration = Duration::from_secs(10);

async fn client(address: &str, prefix: &str) -> Sides {
    Sides::of(&connector(address, prefix).behavior(Behavior::Release)).await
}

/// Who has acquired a key.
fn session_of(address: &str, key: &str) -> String {
    let (_, found) = http(port(address), "GET", &format!("/v1/kv/{key}"), "").unwrap();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    found[0]["Session"].as_str().expect("somebody has it").to_owned()
}

/// What Consul does when a client that died is not heard of in time.
fn end(address: &str, session: &str) {
    assert_eq!(http(port(address), "PUT", &format!("/v1/session/destroy/{session}"), "").unwrap().0, 200);
}

/// The key of a claim that is in line.
fn key_of(address: &str, prefix: &str, claim: &Claim) -> String {
    let public = claim.id.public().to_string();
    left_over(address, prefix).into_iter().find(|key| key.contains(&public)).expect("it is in line")
}

async fn queued(engine: &dyn Engine, claim: &Claim) {
    let standing = engine.claim(claim).await.unwrap();
    assert!(matches!(standing, Standing::Queued { .. }), "{standing:?}");
}

/// Waits for its turn as a client does, without the poll behind it.
async fn until_granted(engine: &dyn Engine, claim: &Claim) -> u64 {
    let turn = async {
        loop {
            match engine.claim(claim).await.unwrap() {
                Standing::Granted { token } => return token,
                _ => drop(engine.moved(claim).await.unwrap()),
            }
        }
    };
    tokio::time::timeout(A_WHILE, turn).await.expect("its turn")
}

/// Waits until only these keys are there.
async fn until_left(address: &str, prefix: &str, expected: &[String]) {
    let until = tokio::time::Instant::now() + A_WHILE;
    while left_over(address, prefix) != expected {
        let left = left_over(address, prefix);
        assert!(tokio::time::Instant::now() < until, "{left:?} instead of {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_holder_and_a_waiter_that_died_keep_nobody_out_of_a_mutex() {
    let (address, prefix) = (shared(), prefix());
    let clients = [client(&address, &prefix).await, client(&address, &prefix).await, client(&address, &prefix).await];
    let [holder, waiter, next] = [claim("a"), claim("a"), claim("a")];
    let token = until_granted(&*clients[0].front, &holder).await;
    queued(&*clients[1].front, &waiter).await;
    queued(&*clients[2].front, &next).await;
    let lock = format!("{prefix}a/.lock");
    let (behind, own) = (key_of(&address, &prefix, &waiter), key_of(&address, &prefix, &next));
    for key in [&behind, &lock] {
        end(&address, &session_of(&address, key));
    }
    assert_eq!(left_over(&address, &prefix).len(), 3, "their keys stay behind");
    assert!(until_granted(&*clients[2].front, &next).await > token);
    // A line of those who are there: nothing is told of who was.
    let lines = clients[2].front.survey("").await.unwrap();
    assert_eq!(lines[0].places.iter().map(|place| place.id).collect::<Vec<_>>(), [next.id.public()]);
    until_left(&address, &prefix, &[own, lock]).await;
    clients[2].front.withdraw(&next).await.unwrap();
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn the_lock_of_a_holder_that_died_is_free_for_who_does_not_wait() {
    let (address, prefix) = (shared(), prefix());
    let [first, second] = [client(&address, &prefix).await, client(&address, &prefix).await];
    let lock = format!("{prefix}a/.lock");
    until_granted(&*first.front, &claim("a")).await;
    end(&address, &session_of(&address, &lock));
    assert_eq!(left_over(&address, &prefix), [lock]);
    assert!(second.front.survey("").await.unwrap().is_empty());
    let reader = Claim { capacity: u32::MAX, ..claim("a") };
    until_granted(&*second.front, &reader).await;
    second.front.withdraw(&reader).await.unwrap();
    let tried = Claim { patience: lockhouse_core::Patience::None, ..claim("a") };
    until_granted(&*second.front, &tried).await;
    second.front.withdraw(&tried).await.unwrap();
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn permits_of_holders_and_waiters_that_died_come_back() {
    let (address, prefix) = (shared(), prefix());
    let permit = || Claim { capacity: 2, ..claim("a") };
    let [dead, alive] = [client(&address, &prefix).await, client(&address, &prefix).await];
    let claims = [permit(), permit(), permit()];
    for holder in &claims[..2] {
        until_granted(&*dead.front, holder).await;
    }
    queued(&*dead.front, &claims[2]).await;
    let (next, last) = (permit(), permit());
    queued(&*alive.front, &next).await;
    queued(&*alive.front, &last).await;
    end(&address, &session_of(&address, &key_of(&address, &prefix, &claims[0])));
    until_granted(&*alive.front, &next).await;
    until_granted(&*alive.front, &last).await;
    let mut expected = [key_of(&address, &prefix, &next), key_of(&address, &prefix, &last)];
    expected.sort();
    until_left(&address, &prefix, &expected).await;
    for claim in [next, last] {
        alive.front.withdraw(&claim).await.unwrap();
    }
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn a_client_that_ends_at_once_clears_away_what_it_met() {
    let (address, prefix) = (shared(), prefix());
    let permit = Claim { capacity: 2, ..claim("a") };
    let dead = client(&address, &prefix).await;
    until_granted(&*dead.front, &permit).await;
    end(&address, &session_of(&address, &key_of(&address, &prefix, &permit)));
    assert_eq!(left_over(&address, &prefix).len(), 1);
    let looks = client(&address, &prefix).await;
    assert!(looks.front.survey("").await.unwrap().is_empty());
    drop(looks);
    until_left(&address, &prefix, &[]).await;
}
