//! What the suite cannot see: what is stored, what a new server process does, and what a set clock does.

mod servers;

use std::slice::from_ref;
use std::time::Duration;

use lockhouse_core::{Claim, Happened, Kind, Patience, Renewal, Standing, Write, Written};
use lockhouse_testkit::claim;
use redis::Value;
use servers::{Server, client, left_over, prefix, shared, tell_words};

fn token(standing: Standing) -> u64 {
    match standing {
        Standing::Granted { token } => token,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_mutex_is_one_plain_key_that_ends_with_its_lease_and_leaves_nothing() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    let a = claim("a");
    token(client.front.claim(&a).await.unwrap());
    let key = format!("{prefix}a");
    assert_eq!(left_over(&address, &prefix), *from_ref(&key));
    let Value::BulkString(value) = tell_words(&address, &["GET", &key]) else { panic!("a string") };
    assert!(value.starts_with(format!("{:032x}", u128::from_be_bytes(*a.id.as_bytes())).as_bytes()));
    let Value::Int(left) = tell_words(&address, &["PTTL", &key]) else { panic!("a number") };
    assert!((1..=10_000).contains(&left), "{left}");
    client.front.withdraw(&a).await.unwrap();
    assert_eq!(left_over(&address, &prefix), [""; 0]);
}

#[tokio::test]
async fn a_line_that_everybody_left_or_died_in_leaves_nothing() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    for (capacity, weight) in [(1, 1), (3, 2)] {
        let claims: Vec<Claim> = (0..5).map(|_| Claim { capacity, weight, ..claim("a") }).collect();
        for claim in &claims {
            client.front.claim(claim).await.unwrap();
        }
        // Every key of it would end by itself.
        for key in left_over(&address, &prefix) {
            assert!(matches!(tell_words(&address, &["PTTL", &key]), Value::Int(1..)), "{key:?} never ends");
        }
        for claim in &claims {
            client.front.withdraw(claim).await.unwrap();
        }
        assert_eq!(left_over(&address, &prefix), [""; 0]);
    }
}

#[tokio::test]
async fn a_grant_is_pushed_with_its_token_and_nobody_has_to_ask() {
    let (address, prefix) = (shared(), prefix());
    let (one, two) = (client(&address, &prefix).await, client(&address, &prefix).await);
    let (first, second) = (claim("a"), claim("a"));
    let before = token(one.front.claim(&first).await.unwrap());
    assert_eq!(two.front.claim(&second).await.unwrap(), Standing::Queued { ahead: 1 });
    let (moved, _) = tokio::join!(two.front.moved(&second), one.front.withdraw(&first));
    let pushed = token(moved.unwrap().expect("the standing itself"));
    assert!(pushed > before);
    assert_eq!(token(two.front.claim(&second).await.unwrap()), pushed);
}

#[tokio::test]
async fn a_floor_raises_the_token_and_every_later_one() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    for capacity in [1, 2] {
        let a = Claim { capacity, ..claim("a") };
        let floor = token(client.front.claim(&a).await.unwrap()) + 1_000;
        assert_eq!(token(client.front.claim(&Claim { floor, ..a.clone() }).await.unwrap()), floor);
        client.front.withdraw(&a).await.unwrap();
        let next = Claim { capacity, ..claim("b") };
        assert!(token(client.front.claim(&next).await.unwrap()) > floor);
        client.front.withdraw(&next).await.unwrap();
    }
}

#[tokio::test]
async fn cells_compare_all_64_bits_of_a_token() {
    let (address, prefix) = (shared(), prefix());
    let client = client(&address, &prefix).await;
    let name = claim("cell").name;
    let write = |id: u8, token| Write { id: [id; 16], value: vec![0, 255, id], if_version: None, token: Some(token) };
    let newest = u64::MAX - 1;
    assert_eq!(client.front.write(&name, &write(1, newest)).await.unwrap(), Written::Yes { version: 1 });
    assert_eq!(client.front.write(&name, &write(2, newest - 1)).await.unwrap(), Written::Stale { newest });
    assert_eq!(client.front.write(&name, &write(3, newest + 1)).await.unwrap(), Written::Yes { version: 2 });
    let cell = client.front.read(&name).await.unwrap();
    assert_eq!((cell.version, cell.token, cell.value), (2, u64::MAX, vec![0, 255, 3]));
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_sent_again() {
    let server = Server::start(&[]);
    let client = client(&server.address(), "p:").await;
    for _ in 0..2 {
        server.tell("SCRIPT FLUSH");
        let a = claim("a");
        token(client.front.claim(&a).await.unwrap());
        server.tell("SCRIPT FLUSH");
        assert_eq!(client.keeper.renew(from_ref(&a)).await.unwrap(), [Renewal::Renewed]);
        client.front.withdraw(&a).await.unwrap();
    }
}

#[tokio::test]
async fn a_new_process_gives_nothing_away_until_its_predecessors_leases_are_over() {
    let server = Server::start(&[]);
    let client = client(&server.address(), "p:").await;
    let ttl = Duration::from_secs(3);
    let held = Claim { ttl, ..claim("a") };
    let before = token(client.front.claim(&held).await.unwrap());
    server.kill();
    server.restart();
    let restarted = std::time::Instant::now();
    let hasty = Claim { ttl, patience: Patience::None, ..claim("a") };
    let error = loop {
        // The connection broke, which is told first.
        match client.front.claim(&hasty).await {
            Err(error) if error.may_have_happened() == Happened::Unknown => {}
            answer => break answer.unwrap_err(),
        }
    };
    assert_eq!((error.kind(), error.may_have_happened()), (Kind::Unreachable, Happened::No), "{error}");
    assert!(error.to_string().contains("nothing is given away"), "{error}");
    let patient = Claim { ttl, ..claim("a") };
    assert!(matches!(client.front.claim(&patient).await.unwrap(), Standing::Queued { .. }));
    assert_eq!(client.keeper.renew(from_ref(&held)).await.unwrap_or(vec![Renewal::Unknown]).len(), 1);
    let next = loop {
        client.keeper.renew(from_ref(&patient)).await.ok();
        if let Standing::Granted { token } = client.front.claim(&patient).await.unwrap() {
            break token;
        }
        client.front.moved(&patient).await.ok();
    };
    // The start of the process is known to a second.
    assert!(restarted.elapsed() >= ttl - Duration::from_secs(1), "{:?}", restarted.elapsed());
    assert!(next > before, "tokens grow although everything was forgotten");
}
