#![doc = include_str!("../README.md")]

mod bell;
mod boot;
mod cells;
mod checkup;
mod claims;
mod client;
mod engine;
mod error;
mod ground;
mod line;
mod moves;
mod open;
mod store;
mod survey;
mod upkeep;
mod waiters;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Connector, CrashFrees, Engine, Error, Exclusion, Guarantees, Kind, Result, Side, TokenSurvives, WakeUp,
};

use crate::client::Client;
use crate::engine::Embedded;
use crate::error::{ENGINE, explain};

/// The shortest lease: the file is looked at with timers that are no finer.
const MIN_TTL: Duration = Duration::from_millis(1);

/// Connects to the embedded engine: one SQLite file, shared by all processes of a machine.
///
/// ```
/// use lockhouse_core::{Connector, Side};
/// use lockhouse_sqlite::Sqlite;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse_core::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("locks.db");
/// let sqlite = Sqlite::at(&path);
/// let keeper = sqlite.connect(Side::Keeper).await?;
/// let front = sqlite.connect(Side::Front).await?;
/// assert!(front.survey("").await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    /// The client that the keeper began and the front joins.
    client: Mutex<Weak<Client>>,
}

impl Sqlite {
    /// The engine in this file. Nothing is opened or created before it is connected.
    #[must_use]
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), client: Mutex::default() }
    }

    /// What the engine promises, whatever the file.
    #[must_use]
    pub fn guarantees() -> Guarantees {
        Guarantees {
            engine: ENGINE,
            exclusion: Exclusion::Machine,
            token: TokenSurvives::Crash,
            fair: true,
            shared: true,
            permits: true,
            priority: true,
            cells: true,
            wake_up: WakeUp::Push,
            crash_frees: CrashFrees::Within(Duration::from_millis(250)),
            outlives_process: true,
            min_ttl: MIN_TTL,
        }
    }

    /// The keeper begins a client; the front joins it, and begins one itself only if it comes alone.
    fn client(&self, side: Side, path: &Path) -> Result<(Arc<Client>, bool)> {
        let mut current = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Side::Front, Some(client)) = (side, current.upgrade()) {
            return Ok((client, false));
        }
        let client = Arc::new(Client::new(path).map_err(|fault| explain(fault, path))?);
        *current = Arc::downgrade(&client);
        Ok((client, true))
    }
}

#[async_trait]
impl Connector for Sqlite {
    /// Opens the file, creating it and its folder if they are not there.
    ///
    /// The side that comes first also wakes this client's waiters: its runtime needs timers and I/O enabled.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] for a file that is not ours or of a newer version, which is left exactly as it is;
    /// [`Kind::Denied`] when the file or its folder cannot be written; [`Kind::Full`] when there is no space;
    /// [`Kind::Invalid`] when the path is a folder; [`Kind::Unsupported`] on a network file system.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let connect = async {
            // SQLite takes some names for something else than a path; an absolute path is always one.
            let path = std::path::absolute(&self.path).map_err(|error| {
                Error::new(Kind::Invalid, "the path of the lock file cannot be used").because(error)
            })?;
            let connection = store::open_patiently(&path).await?;
            let (client, first) = self.client(side, &path)?;
            Ok(Embedded::new(connection, &path, client, first))
        };
        let engine = connect.await.map_err(|error: Error| error.during("connect", None).engine(ENGINE))?;
        Ok(Arc::new(engine))
    }
}
