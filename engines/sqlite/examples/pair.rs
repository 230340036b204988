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

fn raw(path: &Path, page_bytes: u32) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let small = raw(&folder.path().join("small.db"), 1024)?;
    let usual = raw(&folder.path().join("usual.db"), 4096)?;
    let sqlite = Sqlite::at(folder.path().join("locks.db"));
    let _keeper = sqlite.connect(Side::Keeper).await?;
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
    let (mut of_small, mut of_usual, mut of_engine) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_small.push(raw_round(&small)?);
        of_engine.push(engine_round(&engine, &mut claim).await?);
        of_usual.push(raw_round(&usual)?);
    }
    let (small, usual, engine) = (rate(of_small), rate(of_usual), rate(of_engine));
    println!("raw, 1 KiB pages  {small:>8.0} pairs/s");
    println!("raw, 4 KiB pages  {usual:>8.0} pairs/s");
    println!("engine            {engine:>8.0} pairs/s: {:.2} and {:.2} of raw", engine / small, engine / usual);
    Ok(())
}
