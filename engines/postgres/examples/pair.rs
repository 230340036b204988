//! A lock and its release beside the least that PostgreSQL itself needs for them, and a hand-over beside a `NOTIFY`.
//!
//! `cargo run --release -p lockhouse-postgres --example pair -- //postgres@127.0.0.1:5432/postgres`

use std::error::Error;
use std::future::poll_fn;
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, ClaimId, Connector, Engine, Name, Owner, Patience, Side, Standing};
use lockhouse_postgres::Postgres;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio_postgres::{AsyncMessage, NoTls};

const ROUNDS: usize = 5;
const PAIRS: u32 = 400;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "it is what the example is for")]
async fn main() -> Outcome<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "//postgres@127.0.0.1:5432/postgres".into());
    let postgres = Postgres::at(&address)?;
    let (_keeper, front) = (postgres.connect(Side::Keeper).await?, postgres.connect(Side::Front).await?);
    let other = Postgres::at(&address)?;
    let (_keeper, other) = (other.connect(Side::Keeper).await?, other.connect(Side::Front).await?);
    for round in 1..=ROUNDS {
        let (raw, ours) = (raw_pairs(&address).await?, pairs(&*front).await?);
        let (notified, handed) = (raw_notices(&address).await?, hand_overs(&*front, &*other).await?);
        println!(
            "round {round}: raw {raw:.0} pairs/s, ours {ours:.0}, ratio {:.2}; notice {notified:?}, hand-over {handed:?}",
            ours / raw
        );
    }
    Ok(())
}

/// Pairs a second of an insert-or-update and a delete, each committed by itself.
async fn raw_pairs(address: &str) -> Outcome<f64> {
    let (client, connection) = tokio_postgres::connect(&format!("postgres:{address}"), NoTls).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    client
        .batch_execute("CREATE TABLE IF NOT EXISTS raw_pair (name text PRIMARY KEY, id bytea, until timestamptz)")
        .await?;
    let take = client
        .prepare(
            "INSERT INTO raw_pair VALUES ($1, $2, clock_timestamp() + interval '30 s') ON CONFLICT (name) DO UPDATE \
             SET id = excluded.id, until = excluded.until WHERE raw_pair.until < clock_timestamp() RETURNING until",
        )
        .await?;
    let give = client.prepare("DELETE FROM raw_pair WHERE name = $1 AND id = $2").await?;
    let started = Instant::now();
    for _ in 0..PAIRS {
        let id = ClaimId::random();
        client.query_one(&take, &[&"pair", &id.as_bytes().as_slice()]).await?;
        client.execute(&give, &[&"pair", &id.as_bytes().as_slice()]).await?;
    }
    Ok(f64::from(PAIRS) / started.elapsed().as_secs_f64())
}

/// Pairs a second of ours.
async fn pairs(front: &dyn Engine) -> Outcome<f64> {
    let started = Instant::now();
    for _ in 0..PAIRS {
        let claim = claim("pair")?;
        front.claim(&claim).await?;
        front.withdraw(&claim).await?;
    }
    Ok(f64::from(PAIRS) / started.elapsed().as_secs_f64())
}

/// The median time from sending a `NOTIFY`, with a write that it tells of, to hearing it on another connection.
async fn raw_notices(address: &str) -> Outcome<Duration> {
    let url = format!("postgres:{address}");
    let (speaker, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let (listener, mut hearing) = tokio_postgres::connect(&url, NoTls).await?;
    let (heard, mut notices) = unbounded_channel();
    let mut drivers = JoinSet::new();
    drivers.spawn(async move { drop(connection.await) });
    drivers.spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| hearing.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) && heard.send(Instant::now()).is_err() {
                return;
            }
        }
    });
    listener.batch_execute("LISTEN raw_notice").await?;
    let speak = speaker
        .prepare(
            "WITH told AS (INSERT INTO raw_pair VALUES ('notice', '', now()) ON CONFLICT (name) DO UPDATE \
             SET until = excluded.until RETURNING name) SELECT pg_notify('raw_notice', name) FROM told",
        )
        .await?;
    let mut times = Vec::new();
    for _ in 0..PAIRS / 4 {
        let sent = Instant::now();
        let (spoken, at) = tokio::join!(speaker.query(&speak, &[]), notices.recv());
        spoken?;
        times.push(at.ok_or("nothing is heard")?.duration_since(sent));
    }
    Ok(median(times))
}

/// The median time from a release to the grant that is pushed to a waiter of another client.
async fn hand_overs(front: &dyn Engine, other: &dyn Engine) -> Outcome<Duration> {
    let mut times = Vec::new();
    let (mut holder, mut waits) = ((front, claim("hand")?), (other, claim("hand")?));
    front.claim(&holder.1).await?;
    for _ in 0..PAIRS / 4 {
        loop {
            waits.0.claim(&waits.1).await?;
            let sent = Instant::now();
            let release = async {
                // The waiter is listening by then.
                tokio::time::sleep(Duration::from_millis(2)).await;
                let sent = Instant::now();
                holder.0.withdraw(&holder.1).await.map(|_| sent)
            };
            let told = async { waits.0.moved(&waits.1).await.map(|standing| (standing, Instant::now())) };
            let (told, released) = tokio::join!(told, release);
            if let ((Some(Standing::Granted { .. }), at), released) = (told?, released?) {
                times.push(at.duration_since(released.max(sent)));
                break;
            }
            // It listens only since now: once more.
            waits.0.withdraw(&waits.1).await?;
            (holder.1, waits.1) = (claim("hand")?, claim("hand")?);
            holder.0.claim(&holder.1).await?;
        }
        std::mem::swap(&mut holder, &mut waits);
        waits.1 = claim("hand")?;
    }
    holder.0.withdraw(&holder.1).await?;
    Ok(median(times))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn claim(name: &str) -> Outcome<Claim> {
    Ok(Claim {
        id: ClaimId::random(),
        name: Name::new(name)?,
        owner: Owner::new("example"),
        weight: 1,
        capacity: 1,
        priority: 0,
        patience: Patience::Waits,
        ttl: Duration::from_secs(30),
        note: None,
        floor: 0,
        lingers: false,
    })
}
