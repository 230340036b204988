//! The verbs one by one, where Consul has ways of its own.

mod servers;

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lockhouse_core::{Claim, Engine, Kind, Patience, Renewal, Standing, Withdrawal};
use lockhouse_testkit::{Sides, claim};
use servers::{connector, http, left_over, port, prefix, shared};

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

async fn told(engine: &dyn Engine, claim: &Claim) {
    let moved = tokio::time::timeout(Duration::from_secs(3), engine.moved(claim)).await;
    assert_eq!(moved.expect("it is told").unwrap(), None);
}

fn reader() -> Claim {
    Claim { capacity: u32::MAX, ..claim("a") }
}

/// What another program's session asks for and gets.
fn session(address: &str, lock_delay: &str) -> String {
    let body = format!(r#"{{"TTL":"10s","LockDelay":"{lock_delay}","Behavior":"delete","NodeChecks":[],"Checks":[]}}"#);
    let (_, answer) = http(port(address), "PUT", "/v1/session/create", &body).unwrap();
    serde_json::from_str::<serde_json::Value>(&answer).unwrap()["ID"].as_str().unwrap().to_owned()
}

/// What is written in a key.
fn value(kv: &serde_json::Value) -> String {
    String::from_utf8(BASE64_STANDARD.decode(kv["Value"].as_str().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn nothing_that_is_stored_lets_a_reader_release() {
    let (address, prefix) = (shared(), prefix());
    let client = Sides::of(&connector(&address, &prefix)).await;
    let (first, second) = (claim("a"), claim("a"));
    granted(&*client.front, &first).await;
    queued(&*client.front, &second).await;
    let (_, stored) = http(port(&address), "GET", &format!("/v1/kv/{prefix}?recurse"), "").unwrap();
    let stored = serde_json::from_str::<Vec<serde_json::Value>>(&stored).unwrap();
    let stored: String = stored.iter().map(|kv| kv["Key"].to_string() + &value(kv)).collect();
    for claim in [&first, &second] {
        let secret: String = claim.id.as_bytes()[6..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(stored.contains(&claim.id.public().to_string()) && !stored.contains(&secret[..8]), "{stored}");
    }
    let other = Sides::of(&connector(&address, &prefix)).await;
    assert_eq!(other.front.withdraw(&first).await.unwrap(), Withdrawal::NotThere);
    assert_eq!(client.keeper.renew(&[first.clone(), second.clone()]).await.unwrap(), [Renewal::Renewed; 2]);
    for claim in [first, second] {
        assert_eq!(client.front.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
    }
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn a_claim_that_is_sent_again_before_the_first_answer_leaves_nothing() {
    let (address, prefix) = (shared(), prefix());
    let client = Sides::of(&connector(&address, &prefix)).await;
    for _ in 0..200 {
        let claim = claim("a");
        let (once, twice) = tokio::join!(client.front.claim(&claim), client.front.claim(&claim));
        assert_eq!(once.unwrap(), twice.unwrap());
        assert_eq!(client.front.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
        assert_eq!(left_over(&address, &prefix), [""; 0]);
    }
}

#[tokio::test]
async fn a_mutex_that_nobody_else_wants_is_one_key_and_its_holder_is_seen_and_evicted_there() {
    let (address, prefix) = (shared(), prefix());
    let client = Sides::of(&connector(&address, &prefix)).await;
    let (first, second) = (claim("a"), claim("a"));
    let token = granted(&*client.front, &first).await;
    assert_eq!(left_over(&address, &prefix), [format!("{prefix}a/.lock")]);
    let lines = client.front.survey("").await.unwrap();
    let [place] = &lines[0].places[..] else { panic!("{lines:?}") };
    assert_eq!((place.id, place.token, place.evicted), (first.id.public(), Some(token), false));
    queued(&*client.front, &second).await;
    assert!(client.front.evict(&first.name, &first.id.public()).await.unwrap());
    let lines = client.front.survey("").await.unwrap();
    let places: Vec<_> = lines[0].places.iter().map(|place| (place.id, place.token, place.evicted)).collect();
    assert_eq!(places, [(first.id.public(), Some(token), true), (second.id.public(), None, false)]);
    assert_eq!(client.keeper.renew(&[first.clone(), second.clone()]).await.unwrap(), [Renewal::Gone, Renewal::Renewed]);
    // Its place stays taken until it lets go.
    queued(&*client.front, &second).await;
    assert_eq!(client.front.withdraw(&first).await.unwrap(), Withdrawal::Withdrawn);
    assert!(granted(&*client.front, &second).await > token);
    client.front.withdraw(&second).await.unwrap();
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn a_key_that_was_released_and_left_there_is_free() {
    let (address, prefix) = (shared(), prefix());
    let client = Sides::of(&connector(&address, &prefix)).await;
    let key = format!("/v1/kv/{prefix}a/.lock");
    for patience in [Patience::Waits, Patience::None] {
        assert_eq!(http(port(&address), "PUT", &key, "words").unwrap().0, 200);
        let claim = Claim { patience, ..claim("a") };
        granted(&*client.front, &claim).await;
        client.front.withdraw(&claim).await.unwrap();
    }
}

#[tokio::test]
async fn a_pause_that_another_program_asked_for_is_waited_for() {
    let (address, prefix) = (shared(), prefix());
    let client = Sides::of(&connector(&address, &prefix)).await;
    let theirs = session(&address, "2s");
    let key = format!("/v1/kv/{prefix}a/.lock?acquire={theirs}");
    assert_eq!(http(port(&address), "PUT", &key, "").unwrap().1.trim(), "true");
    let ours = claim("a");
    queued(&*client.front, &ours).await;
    let tried = Claim { patience: Patience::None, ..claim("a") };
    assert_eq!(client.front.claim(&tried).await.unwrap(), Standing::Refused);
    assert_eq!(http(port(&address), "PUT", &format!("/v1/session/destroy/{theirs}"), "").unwrap().0, 200);
    told(&*client.front, &ours).await;
    queued(&*client.front, &ours).await;
    for _ in 0..20 {
        told(&*client.front, &ours).await;
        if let Standing::Granted { .. } = client.front.claim(&ours).await.unwrap() {
            client.front.withdraw(&ours).await.unwrap();
            return;
        }
    }
    panic!("it is not granted after the pause");
}

/// An administrator ends the session that has a key.
fn end_session_of(address: &str, key: &str) {
    let (_, found) = http(port(address), "GET", &format!("/v1/kv/{key}"), "").unwrap();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let session = found[0]["Session"].as_str().expect("somebody has it");
    assert_eq!(http(port(address), "PUT", &format!("/v1/session/destroy/{session}"), "").unwrap().0, 200);
}

/// Waits for its turn, and for no longer than that.
async fn until_granted(engine: &dyn Engine, claim: &Claim) {
    let turn = async {
        while !matches!(engine.claim(claim).await.unwrap(), Standing::Granted { .. }) {
            engine.moved(claim).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(8), turn).await.expect("its turn");
}

#[tokio::test]
async fn a_lock_delay_keeps_the_next_out_of_a_mutex_for_so_long_and_no_longer() {
    const DELAY: Duration = Duration::from_secs(2);
    let (address, prefix) = (shared(), prefix());
    let holder = Sides::of(&connector(&address, &prefix).lock_delay(DELAY).unwrap()).await;
    let next = Sides::of(&connector(&address, &prefix)).await;
    let (first, second) = (claim("a"), claim("a"));
    granted(&*holder.front, &first).await;
    queued(&*next.front, &second).await;
    let begun = Instant::now();
    end_session_of(&address, &format!("{prefix}a/.lock"));
    let ended = Instant::now();
    until_granted(&*next.front, &second).await;
    assert!(begun.elapsed() >= DELAY, "after {:?}", begun.elapsed());
    assert!(ended.elapsed() <= DELAY + Duration::from_secs(3), "after {:?}", ended.elapsed());
    next.front.withdraw(&second).await.unwrap();
}

#[tokio::test]
async fn a_lock_delay_is_nothing_to_readers_and_permits() {
    let (address, prefix) = (shared(), prefix());
    let holder = Sides::of(&connector(&address, &prefix).lock_delay(Duration::from_secs(60)).unwrap()).await;
    let next = Sides::of(&connector(&address, &prefix)).await;
    let (first, second) = (Claim { weight: u32::MAX, ..reader() }, reader());
    granted(&*holder.front, &first).await;
    queued(&*next.front, &second).await;
    let key = left_over(&address, &prefix).into_iter().find(|key| key.contains(&first.id.public().to_string()));
    end_session_of(&address, &key.expect("it is in line"));
    until_granted(&*next.front, &second).await;
    next.front.withdraw(&second).await.unwrap();
}

#[tokio::test]
async fn a_session_that_an_operator_ends_is_a_loss_and_another_one_takes_its_place() {
    let (address, prefix) = (shared(), prefix());
    let client = Sides::of(&connector(&address, &prefix)).await;
    let first = claim("a");
    let token = granted(&*client.front, &first).await;
    end_session_of(&address, &format!("{prefix}a/.lock"));
    assert_eq!(client.keeper.renew(std::slice::from_ref(&first)).await.unwrap(), [Renewal::Gone]);
    assert_eq!(client.front.withdraw(&first).await.unwrap(), Withdrawal::NotThere);
    let next = claim("a");
    assert!(granted(&*client.front, &next).await > token);
    client.front.withdraw(&next).await.unwrap();
}

#[tokio::test]
async fn a_writer_that_becomes_a_reader_keeps_its_token_and_lets_readers_in() {
    let (address, prefix) = (shared(), prefix());
    let (client, other) =
        (Sides::of(&connector(&address, &prefix)).await, Sides::of(&connector(&address, &prefix)).await);
    let (writer, here, there) = (Claim { weight: u32::MAX, ..reader() }, reader(), reader());
    let token = granted(&*client.front, &writer).await;
    queued(&*client.front, &here).await;
    queued(&*other.front, &there).await;
    let lighter = Claim { weight: 1, ..writer.clone() };
    assert_eq!(granted(&*client.front, &lighter).await, token);
    for (engine, claim) in [(&client.front, &here), (&other.front, &there)] {
        told(&**engine, claim).await;
        granted(&**engine, claim).await;
    }
    assert_eq!(client.front.claim(&writer).await.unwrap_err().kind(), Kind::Invalid);
    let late = Claim { floor: u64::MAX, ..reader() };
    assert_eq!(client.front.claim(&late).await.unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(left_over(&address, &prefix).len(), 3, "a claim that was refused left something behind");
    for (engine, claim) in [(&client.front, &writer), (&client.front, &here), (&other.front, &there)] {
        assert_eq!(engine.withdraw(claim).await.unwrap(), Withdrawal::Withdrawn);
    }
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}
