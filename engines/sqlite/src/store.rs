//! One connection, and short transactions on it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockhouse_core::{Clock, Result};
use rusqlite::Connection;

use crate::client::Client;
use crate::error::{Fault, explain};
use crate::line::Tx;
use crate::open::open;

/// How long an operation tries to get its turn, unless the lease it is about is shorter.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Even a very short lease gets this much: a checkpoint of another process can take as long.
const LEAST_PATIENCE: Duration = Duration::from_millis(200);
/// So often a writer is asked again at once: its transaction takes some ten microseconds, and timers are a hundred
/// times as coarse.
const QUICK_ATTEMPTS: u32 = 16;
/// Then with pauses that grow to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);
/// After so many commits somebody should look how large the log is.
const COMMITS_PER_LOOK: u64 = 512;

/// One connection to the file, used inline by whoever calls: handing a transaction to another thread would cost more
/// than the transaction itself.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) client: Arc<Client>,
    pub(crate) path: PathBuf,
    connection: Mutex<Connection>,
    commits: AtomicU64,
}

impl Store {
    /// Opens a further connection of a client.
    pub(crate) fn new(connection: Connection, path: &Path, client: Arc<Client>) -> Self {
        Self { client, path: path.to_owned(), connection: Mutex::new(connection), commits: AtomicU64::new(0) }
    }

    /// Runs a transaction that may write, and tells those whose claims it moved.
    ///
    /// # Cancellation safety
    /// The transaction itself is never interrupted: the future can only be dropped while it waits for its turn.
    pub(crate) async fn write<T>(
        &self,
        patience: Duration,
        mut act: impl FnMut(&mut Tx<'_>) -> Result<T, Fault> + Send,
    ) -> Result<T> {
        let mut turn = Turn::within(patience);
        loop {
            match self.transact(&mut act) {
                Err(fault) if fault.is_busy() && turn.again().await => {}
                done => return done.map_err(|fault| explain(fault, &self.path)),
            }
        }
    }

    /// Runs statements that only read.
    pub(crate) async fn read<T>(&self, act: impl Fn(&Connection) -> Result<T, Fault> + Send) -> Result<T> {
        let mut turn = Turn::within(PATIENCE);
        loop {
            // Readers do not wait for writers, but everybody waits while a crashed writer's log is recovered.
            let done = act(&self.connection());
            match done {
                Err(fault) if fault.is_busy() && turn.again().await => {}
                done => return done.map_err(|fault| explain(fault, &self.path)),
            }
        }
    }

    /// Changes whenever anybody, on this connection or another, has committed something.
    pub(crate) async fn version(&self) -> Result<(i64, u64)> {
        let others = self
            .read(|connection| Ok(connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?))
            .await?;
        Ok((others, self.commits.load(Ordering::Relaxed)))
    }

    fn transact<T>(&self, act: &mut impl FnMut(&mut Tx<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let connection = self.connection();
        if !connection.is_autocommit() {
            // Somebody panicked in here.
            connection.execute_batch("ROLLBACK")?;
        }
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // From here on nobody else writes, so the time is read here and not before the wait.
        let mut tx = Tx::new(&connection, &self.client, Clock::Boot.now());
        let outcome = act(&mut tx).and_then(|value| tx.finish().map(|moves| (value, moves)));
        let ended = match &outcome {
            Ok(_) => connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([])),
            Err(_) => Ok(0),
        };
        if !connection.is_autocommit() {
            // SQLite rolls some failures back by itself; an error here would say nothing new.
            let _ = connection.execute_batch("ROLLBACK");
        }
        drop(connection);
        let (value, moves) = outcome?;
        if let Err(error) = ended {
            let fault = Fault::from(error);
            // What the disk made of it is not known.
            return Err(if fault.undone_on_commit() {
                fault
            } else {
                Fault::Refused(explain(fault, &self.path).unknown())
            });
        }
        if self.commits.fetch_add(1, Ordering::Relaxed) % COMMITS_PER_LOOK == COMMITS_PER_LOOK - 1 {
            self.client.grown.notify_one();
        }
        moves.tell(&self.client);
        Ok(value)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the database within the usual patience.
pub(crate) async fn open_patiently(path: &Path) -> Result<Connection> {
    let mut turn = Turn::within(PATIENCE);
    loop {
        match open(path) {
            Err(fault) if fault.is_busy() && turn.again().await => {}
            done => return done.map_err(|fault| explain(fault, path)),
        }
    }
}

/// How long to wait for a turn when a lease of this length is at stake.
pub(crate) fn patience(ttl: Duration) -> Duration {
    ttl.clamp(LEAST_PATIENCE, PATIENCE)
}

/// Waiting for others to get out of the way. SQLite's own way blocks the thread.
struct Turn {
    deadline: Instant,
    attempts: u32,
}

impl Turn {
    fn within(patience: Duration) -> Self {
        Self { deadline: Instant::now() + patience, attempts: 0 }
    }

    /// Pauses; `false` when the time is up.
    async fn again(&mut self) -> bool {
        self.attempts += 1;
        let Some(slow) = self.attempts.checked_sub(QUICK_ATTEMPTS) else {
            tokio::task::yield_now().await;
            return true;
        };
        // Jitter, so that two that met once do not meet again and again.
        let pause = Duration::from_micros(100).saturating_mul(1 << slow.min(6)).min(LONGEST_PAUSE);
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
        Instant::now() < self.deadline
    }
}
