//! How fast an uncontended lock is, beside the least that SQLite itself needs for two transactions.
//!
//! `cargo run --release -p lockhouse-sqlite --example pair [FOLDER]` prints pairs per second: `raw` inserts a row in one
//! transaction and deletes it in the next, `engine` claims and withdraws. Both take turns in short rounds, so that a noisy
//! machine is noisy for both.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, ClaimId, Connector, Engine, Name, Owner, Patience, Side};
use lockhouse_sqlite::Sqlite;
use rusqlite::{Connection, params};

const ROUNDS: u32 = 40;
const PAIRS_PER_ROUND: u32 = 1000;

fn raw(path: &Path, page_bytes: u32, checkpoint: u32) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         PRAGMA wal_autocheckpoint = {checkpoint};
         CREATE TABLE locks (name TEXT PRIMARY KEY, owner TEXT, lease_end INTEGER) WITHOUT ROWID"
    ))?;
    Ok(connection)
}

fn raw_round(connection: &Connection) -> rusqlite::Result<Duration> {
    let begin = Instant::now();
    for number in 0..PAIRS_PER_ROUND {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = connection.prepare_cached("INSERT INTO locks VALUES (?1, ?2, ?3)")?;
        insert.execute(params!["orders/42", "alice@web-1:4711", number])?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        connection.prepare_cached("DELETE FROM locks WHERE name = ?1")?.execute(["orders/42"])?;
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(begin.elapsed())
}

async fn engine_round(engine: &Arc<dyn Engine>, claim: &mut Claim) -> lockhouse_core::Result<Duration> {
    let begin = Instant::now();
    for _ in 0..PAIRS_PER_ROUND {
        claim.id = ClaimId::random();
        engine.claim(claim).await?;
        engine.withdraw(claim).await?;
    }
    Ok(begin.elapsed())
}

fn rate(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    f64::from(PAIRS_PER_ROUND) / rounds[rounds.len() / 2].as_secs_f64()
}

/// The keeper's side lives on a thread of its own, as in a real client, and looks after the log meanwhile.
fn keep(sqlite: Arc<Sqlite>) -> impl Future<Output = ()> {
    let (tell, connected) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let _keeper = sqlite.connect(Side::Keeper).await.expect("a connection");
            let _ = tell.send(());
            std::future::pending::<()>().await;
        });
    });
    async { connected.await.expect("a keeper") }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let never = raw(&folder.path().join("never.db"), 1024, 0)?;
    let small = raw(&folder.path().join("small.db"), 1024, 1000)?;
    let usual = raw(&folder.path().join("usual.db"), 4096, 1000)?;
    let sqlite = Arc::new(Sqlite::at(folder.path().join("locks.db")));
    keep(Arc::clone(&sqlite)).await;
    let engine = sqlite.connect(Side::Front).await?;
    let mut claim = Claim {
        id: ClaimId::random(),
        name: Name::new("orders/42")?,
        owner: Owner::new("alice@web-1:4711"),
        weight: 1,
        capacity: 1,
        priority: 0,
        patience: Patience::Waits,
        ttl: Duration::from_secs(10),
        note: None,
        floor: 0,
        lingers: false,
    };
    let (mut of_never, mut of_small, mut of_usual, mut of_engine) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        of_never.push(raw_round(&never)?);
        of_small.push(raw_round(&small)?);
        of_engine.push(engine_round(&engine, &mut claim).await?);
        of_usual.push(raw_round(&usual)?);
    }
    let engine = rate(of_engine);
    println!("engine                        {engine:>8.0} pairs/s");
    for (what, rounds) in
        [("1 KiB pages, no checkpoints", of_never), ("1 KiB pages", of_small), ("4 KiB pages", of_usual)]
    {
        let raw = rate(rounds);
        println!("raw {what:<27} {raw:>7.0} pairs/s: the engine has {:.2} of it", engine / raw);
    }
    let mut visits = Vec::new();
    for _ in 0..50 {
        visits.push(visit(&folder.path().join("visited.db"), &mut claim).await?);
    }
    visits.sort();
    println!("open, lock, release, close    {:>8.1?} in the middle of {}", visits[visits.len() / 2], visits.len());
    Ok(())
}

/// What a short-lived command does.
async fn visit(path: &Path, claim: &mut Claim) -> lockhouse_core::Result<Duration> {
    let begin = Instant::now();
    let sqlite = Sqlite::at(path);
    let keeper = sqlite.connect(Side::Keeper).await?;
    let front = sqlite.connect(Side::Front).await?;
    claim.id = ClaimId::random();
    front.claim(claim).await?;
    front.withdraw(claim).await?;
    drop((keeper, front));
    Ok(begin.elapsed())
}
