//! PostgreSQL beside its own statements, in one run and in turns: uncontended locks beside the least that PostgreSQL
//! needs for the same promise, and a hand-over to a waiter beside a `NOTIFY`, with a write as ours and by itself.
//!
//! It starts a server of its own, unless it is given the address of one: `//postgres@127.0.0.1:5432/postgres`.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::error::Error;
use std::future::poll_fn;
use std::time::{Duration, Instant};

use lockhouse::Locks;
use lockhouse_testkit::Postgres;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

/// Many and short: the shorter they are, the more alike is the machine that both sides see.
const ROUNDS: usize = 121;
const PAIRS: u32 = 25;
const HAND_OVERS: u32 = 3;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// PostgreSQL's own statements, prepared, on one connection; and one more that listens.
struct Raw {
    client: Client,
    upsert: Statement,
    delete: Statement,
    count: Statement,
    lock: Statement,
    unlock: Statement,
    notify: Statement,
    write_and_notify: Statement,
    heard: UnboundedReceiver<Instant>,
    _listener: Client,
    _drivers: JoinSet<()>,
}

impl Raw {
    async fn connect(url: &str) -> Outcome<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let (listener, mut hearing) = tokio_postgres::connect(url, NoTls).await?;
        let (tell, heard) = unbounded_channel();
        let mut drivers = JoinSet::new();
        drivers.spawn(async move { drop(connection.await) });
        drivers.spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| hearing.poll_message(context)).await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    let _ = tell.send(Instant::now());
                }
            }
        });
        client
            .batch_execute(
                "CREATE TABLE IF NOT EXISTS raw_leases (name text PRIMARY KEY, id bytea, until timestamptz);
                 CREATE TABLE IF NOT EXISTS raw_counters (name text PRIMARY KEY, counter bigint);
                 INSERT INTO raw_counters VALUES ('raw', 0) ON CONFLICT DO NOTHING",
            )
            .await?;
        listener.batch_execute("LISTEN raw_notice").await?;
        Ok(Self {
            upsert: client
                .prepare(
                    "INSERT INTO raw_leases VALUES ($1, $2, clock_timestamp() + interval '30 s') ON CONFLICT (name) \
                     DO UPDATE SET id = excluded.id, until = excluded.until \
                     WHERE raw_leases.until < clock_timestamp() RETURNING until",
                )
                .await?,
            delete: client.prepare("DELETE FROM raw_leases WHERE name = $1 AND id = $2").await?,
            count: client
                .prepare("UPDATE raw_counters SET counter = counter + 1 WHERE name = 'raw' RETURNING counter")
                .await?,
            lock: client.prepare("SELECT pg_advisory_lock($1)").await?,
            unlock: client.prepare("SELECT pg_advisory_unlock($1)").await?,
            notify: client.prepare("SELECT pg_notify('raw_notice', 'raw')").await?,
            write_and_notify: client
                .prepare(
                    "WITH told AS (UPDATE raw_counters SET counter = counter + 1 WHERE name = 'raw' RETURNING name) \
                     SELECT pg_notify('raw_notice', name) FROM told",
                )
                .await?,
            client,
            heard,
            _listener: listener,
            _drivers: drivers,
        })
    }

    /// An insert-or-update and a delete, each committed by itself.
    async fn leases(&self) -> Outcome<Duration> {
        let started = Instant::now();
        for pair in 0..PAIRS {
            let id = pair.to_be_bytes();
            self.client.query_one(&self.upsert, &[&"raw", &id.as_slice()]).await?;
            self.client.execute(&self.delete, &[&"raw", &id.as_slice()]).await?;
        }
        Ok(started.elapsed())
    }

    /// An advisory lock and its end; with a token, which is committed before the lock counts.
    async fn sessions(&self, token: bool) -> Outcome<Duration> {
        let started = Instant::now();
        for _ in 0..PAIRS {
            self.client.query_one(&self.lock, &[&7_i64]).await?;
            if token {
                self.client.query_one(&self.count, &[]).await?;
            }
            self.client.query_one(&self.unlock, &[&7_i64]).await?;
        }
        Ok(started.elapsed())
    }

    /// From sending a `NOTIFY`, with a write or by itself, to hearing it on another connection.
    async fn notices(&mut self, writes: bool) -> Outcome<Vec<Duration>> {
        let notify = if writes { &self.write_and_notify } else { &self.notify };
        let mut times = Vec::new();
        for _ in 0..HAND_OVERS {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let sent = Instant::now();
            let (told, at) = tokio::join!(self.client.query(notify, &[]), self.heard.recv());
            told?;
            times.push(at.ok_or("nothing is heard")?.duration_since(sent));
        }
        Ok(times)
    }
}

async fn pairs(locks: &Locks) -> Outcome<Duration> {
    let mutex = locks.mutex("pair");
    let started = Instant::now();
    for _ in 0..PAIRS {
        mutex.lock().await?.release().await?;
    }
    Ok(started.elapsed())
}

/// From a release to the grant of a waiter of another client.
async fn hand_overs(clients: &[Locks; 2]) -> Outcome<Vec<Duration>> {
    let mut times = Vec::new();
    let mut guard = clients[0].mutex("hand").lock().await?;
    for turn in 1..=HAND_OVERS as usize {
        let next = clients[turn % 2].mutex("hand");
        let (granted, released) =
            tokio::join!(async { next.lock().await.map(|guard| (guard, Instant::now())) }, async {
                // It is in line, and asleep, by then.
                tokio::time::sleep(Duration::from_millis(10)).await;
                let started = Instant::now();
                guard.release().await.map(|_| started)
            });
        let (next, at) = granted?;
        times.push(at.duration_since(released?));
        guard = next;
    }
    guard.release().await?;
    Ok(times)
}

fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("times can be compared"));
    values[values.len() / 2]
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let given = std::env::args().nth(1);
    let server = if given.is_none() { Some(Postgres::start_plain()) } else { None };
    let address = given.or(server.as_ref().map(Postgres::address)).ok_or("no address")?;
    let url = format!("postgres:{address}");
    let mut raw = Raw::connect(&url).await?;
    let leases = [lockhouse::connect(&url).await?, lockhouse::connect(&url).await?];
    let session_url = format!("{url}?hold=session");
    let sessions = [lockhouse::connect(&session_url).await?, lockhouse::connect(&session_url).await?];
    let (mut of_lease, mut of_session, mut of_writes, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut notices, mut bare_notices, mut by_lease, mut by_session) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (raw_leases, ours) = (raw.leases().await?, pairs(&leases[0]).await?);
        of_lease.push(raw_leases.as_secs_f64() / ours.as_secs_f64());
        // Again, so that it is right before what it is compared with.
        let (raw_leases, ours) = (raw.leases().await?, pairs(&sessions[0]).await?);
        of_writes.push(raw_leases.as_secs_f64() / ours.as_secs_f64());
        of_session.push(raw.sessions(true).await?.as_secs_f64() / ours.as_secs_f64());
        bare.push(raw.sessions(false).await?.as_secs_f64() / ours.as_secs_f64());
        notices.extend(raw.notices(true).await?);
        bare_notices.extend(raw.notices(false).await?);
        by_lease.extend(hand_overs(&leases).await?);
        by_session.extend(hand_overs(&sessions).await?);
    }
    println!("lease:   {:.2} of an insert-or-update and a delete", median(of_lease));
    println!("session: {:.2} of an insert-or-update and a delete", median(of_writes));
    println!("         {:.2} of an advisory lock with a counter", median(of_session));
    println!("         {:.2} of an advisory lock without a token", median(bare));
    let (lease, session) = (median(by_lease), median(by_session));
    let raws = [("a write and its NOTIFY", median(notices)), ("a NOTIFY by itself", median(bare_notices))];
    for (what, raw) in raws {
        let times = |time: Duration| time.as_secs_f64() / raw.as_secs_f64();
        println!("hand-over, p50: {:.2} of {what} ({lease:?} of {raw:?})", times(lease));
        println!("                {:.2} by session ({session:?})", times(session));
    }
    Ok(())
}
