//! Ten thousand wait for one lock.

mod servers;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockhouse_core::{Claim, Standing};
use lockhouse_testkit::{Sides, claim};
use servers::{Server, client, info};

const TURNS: u32 = 100;

/// Adds that many to the line, and says how long it takes to hand the lock on to one after the other.
async fn hand_over(client: &Sides, line: &mut VecDeque<Claim>, waiters: usize) -> Duration {
    let newcomers: Vec<Claim> =
        (line.len()..=waiters).map(|_| Claim { ttl: Duration::from_secs(300), ..claim("x") }).collect();
    // The script is there after the first, so the others are answered in the order in which they are sent. Not all at
    // once: an answer is waited for no longer than two seconds, and a busy machine takes more for ten thousand.
    client.front.claim(&newcomers[0]).await.unwrap();
    for some in newcomers.chunks(200) {
        for standing in join_all(some.iter().map(|claim| client.front.claim(claim))).await {
            standing.unwrap();
        }
    }
    line.extend(newcomers);
    let begun = Instant::now();
    for _ in 0..TURNS {
        client.front.withdraw(&line.pop_front().unwrap()).await.unwrap();
    }
    let took = begun.elapsed() / TURNS;
    let next = client.front.claim(&line[0]).await.unwrap();
    assert!(matches!(next, Standing::Granted { .. }), "{next:?}");
    took
}

#[tokio::test]
async fn a_grant_costs_as_much_with_ten_thousand_in_line_and_no_connection_more() {
    let server = Server::start(&[]);
    let client = client(&server.address(), "p:").await;
    let connections = || info(&server.address(), "clients", "connected_clients");
    let (mut line, before) = (VecDeque::new(), connections());
    let mut few = Duration::MAX;
    let mut many = Duration::MAX;
    for _ in 0..3 {
        few = few.min(hand_over(&client, &mut line, 200).await);
    }
    for _ in 0..3 {
        many = many.min(hand_over(&client, &mut line, 10_000).await);
    }
    // The best of three, and generous: walking the line would cost fifty times as much.
    assert!(many < few * 4, "{few:?} with 200 in line, {many:?} with 10 000");
    assert_eq!(connections(), before, "a connection for each of them");
}
