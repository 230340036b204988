//! What somebody has to do now and then: carry the log over into the database, and sweep up after dead clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockhouse_core::{Clock, Name};
use rusqlite::{Connection, params};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::client::{clients, lock_of_the_dead, remove_files};
use crate::error::Fault;
use crate::ground::beside;
use crate::line::sql;
use crate::open::plain;
use crate::store::{PATIENCE, Store};

/// A log longer than this is carried over. Whoever opens the file first reads the whole log, so it is not left long.
const LOG_BYTES: u64 = 4 << 20;
/// A log longer than this means that busy writers never let it begin anew: they are stopped for a moment.
const LONG_LOG_BYTES: u64 = 8 * LOG_BYTES;
/// How long that moment may be waited for.
const PAUSE_FOR_RESTART: Duration = Duration::from_millis(100);
/// Short-lived commands do not sweep up: they should be done before that.
const FIRST_SWEEP: Duration = Duration::from_secs(1);
/// Nobody depends on sweeping: whoever claims a name looks after it, so this only bounds what is left lying around.
const SWEEP: Duration = Duration::from_secs(60);

/// The upkeep by one client. It keeps nothing alive: when the client's stores are gone it ends.
#[derive(Debug)]
pub(crate) struct Upkeep {
    store: Weak<Store>,
    path: PathBuf,
    grown: Arc<Notify>,
    own: Own,
}

/// Upkeep waits for the disk, so it has threads of the runtime's pool and a connection of its own, opened when it is
/// first needed. A busy log is carried over many times a second.
type Own = Arc<Mutex<Option<Connection>>>;

impl Upkeep {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self {
            store: Arc::downgrade(store),
            path: store.path.clone(),
            grown: Arc::clone(&store.client.grown),
            own: Own::default(),
        }
    }

    /// Keeps up until the client is gone.
    pub(crate) async fn run(self) {
        let mut next_sweep = tokio::time::Instant::now() + FIRST_SWEEP;
        loop {
            if log_bytes(&self.path) > LOG_BYTES {
                report(self.on_own(carry_over).await);
            }
            tokio::select! {
                () = self.grown.notified() => {}
                () = tokio::time::sleep_until(next_sweep) => {
                    let Some(store) = self.store.upgrade() else { return };
                    self.sweep(&store).await;
                    next_sweep = tokio::time::Instant::now() + SWEEP;
                }
            }
        }
    }
}

impl Upkeep {
    /// Removes what dead clients left behind, and claims whose lease is over under names that nobody asks for.
    async fn sweep(&self, store: &Store) {
        let path = self.path.clone();
        let find = move || {
            let found = clients(&path).unwrap_or_default();
            found.into_iter().filter_map(|id| Some((id, lock_of_the_dead(&path, id)?))).collect::<Vec<_>>()
        };
        let dead = spawn_blocking(find).await.unwrap_or_default();
        let mut tidied = self.tidy(store, None).await;
        for (id, lock) in dead {
            // The claims first: a file without claims does no harm, claims without a file wait for the end of their
            // lease.
            tidied = tidied && self.tidy(store, Some(id)).await;
            if tidied {
                remove_files(&store.path, id);
            }
            drop(lock);
        }
    }

    /// Tidies all names with claims that are over or of this dead client. Says whether that went well.
    async fn tidy(&self, store: &Store, dead: Option<i64>) -> bool {
        let names = match self.on_own(move |connection, _| ended(connection, dead)).await {
            Ok(names) => names,
            Err(fault) => {
                report(Err(fault));
                return false;
            }
        };
        for name in names {
            if let Err(error) = store.write(PATIENCE, |tx| tx.tidy(&name, dead)).await {
                tracing::debug!(%error, "cannot sweep up");
                return false;
            }
        }
        true
    }

    async fn on_own<T: Default + Send + 'static>(
        &self,
        act: impl FnOnce(&Connection, &Path) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (path, own) = (self.path.clone(), Arc::clone(&self.own));
        let acted = spawn_blocking(move || {
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            let connection = match &mut *own {
                Some(connection) => connection,
                none => none.insert(plain(&path)?),
            };
            act(connection, &path)
        });
        // It is only cancelled when the runtime shuts down.
        acted.await.unwrap_or(Ok(T::default()))
    }
}

fn log_bytes(path: &Path) -> u64 {
    fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len())
}

fn carry_over(connection: &Connection, path: &Path) -> Result<(), Fault> {
    // Beside the writers. The log begins anew if none of them came in between.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    if log_bytes(path) > LONG_LOG_BYTES {
        connection.busy_timeout(PAUSE_FOR_RESTART)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        connection.busy_timeout(Duration::ZERO)?;
    }
    Ok(())
}

fn ended(connection: &Connection, dead: Option<i64>) -> Result<Vec<Name>, Fault> {
    let now = i64::try_from(Clock::Boot.now().as_nanos()).unwrap_or(i64::MAX);
    let mut ended = connection.prepare(sql!("ended"))?;
    let names = ended.query_map(params![now, dead], |row| row.get::<_, String>(0))?;
    names.map(|name| Ok(Name::new(name?)?)).collect()
}

fn report(done: Result<(), Fault>) {
    if let Err(fault) = done {
        tracing::debug!(?fault, "upkeep of the lock file");
    }
}
