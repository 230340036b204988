//! What the benches share: Lockhouse's clients, and the raw engines beside them.
//!
//! Times on a busy machine are noisy, so ratios count: `cargo run --release -p lockhouse-bench --example ratio` lets
//! ours and the raw engine take turns in short rounds, and prints the ratio of their medians; `--example redis`,
//! `mysql` and `postgres` do the same for these. `--example etcd`, `zookeeper` and `consul` measure hand-overs beside
//! those of others as well. All of them start a server of their own. `cargo bench -p lockhouse-bench` has the figures
//! one by one.

mod consul;
mod etcd;
mod go_mutex;
mod handover;
mod server;
mod turns;

use std::path::Path;

use lockhouse::{Locks, Result};
use rusqlite::{Connection, params};

pub use crate::consul::RawConsul;
pub use crate::etcd::RawEtcd;
pub use crate::go_mutex::GoMutex;
pub use crate::handover::{CONTENDERS, CONTEST, Handed, Referee, contest, our_turn};
pub use crate::server::Server;
pub use crate::turns::{Compared, Outcome, in_turns};

/// The least that SQLite itself needs for a lock: a row inserted in one write transaction and deleted in the next, with
/// the settings that the embedded engine uses.
#[derive(Debug)]
pub struct RawSqlite {
    connection: Connection,
}

impl RawSqlite {
    /// A new database.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn create(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             CREATE TABLE locks (name TEXT PRIMARY KEY, owner TEXT, lease_end INTEGER) WITHOUT ROWID",
        )?;
        Ok(Self { connection })
    }

    /// Takes and gives back, without asking whether anybody else is there.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn pair(&self) -> rusqlite::Result<()> {
        let run = |sql: &str| self.connection.prepare_cached(sql)?.execute([]);
        run("BEGIN IMMEDIATE")?;
        let mut insert = self.connection.prepare_cached("INSERT INTO locks VALUES (?1, ?2, ?3)")?;
        insert.execute(params!["orders/42", "alice@web-1:4711", 1])?;
        run("COMMIT")?;
        run("BEGIN IMMEDIATE")?;
        self.connection.prepare_cached("DELETE FROM locks WHERE name = ?1")?.execute(["orders/42"])?;
        run("COMMIT")?;
        Ok(())
    }
}

/// Takes a lock and gives it back, as a user would.
///
/// # Errors
/// What the engine says.
pub async fn pair(locks: &Locks) -> Result<()> {
    let guard = locks.mutex("orders/42").lock().await?;
    guard.release().await?;
    Ok(())
}

/// So many uncontended pairs of one task, each task on a name of its own.
///
/// # Errors
/// What the engine says.
pub async fn ours(locks: Locks, task: u32, pairs: u32) -> Outcome<()> {
    let mutex = locks.mutex(format!("orders/{task}"));
    for _ in 0..pairs {
        mutex.lock().await?.release().await?;
    }
    Ok(())
}

/// Connects to an embedded engine in a folder.
///
/// # Errors
/// What the engine says.
pub async fn sqlite(folder: &Path) -> Result<Locks> {
    lockhouse::connect(&format!("sqlite:{}", folder.join("locks.db").display())).await
}
