//! The embedded engine faces the conformance suite.

use std::path::PathBuf;
use std::sync::Arc;

use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_sqlite::Sqlite;
use lockhouse_testkit::{Saboteur, Subject, async_trait};
use tempfile::TempDir;

/// A file in a folder of its own.
#[derive(Debug)]
struct Embedded {
    folder: TempDir,
}

impl Embedded {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }
}

#[async_trait]
impl Subject for Embedded {
    fn guarantees(&self) -> Guarantees {
        Sqlite::guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(Sqlite::at(self.file()))
    }

    fn pace(&self) -> u32 {
        4
    }

    fn url(&self) -> Option<String> {
        Some(self.file().display().to_string())
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }
}

#[async_trait]
impl Saboteur for Embedded {
    async fn remove(&self, name: &Name) {
        let database = rusqlite::Connection::open(self.file()).expect("the file is there");
        database.busy_timeout(std::time::Duration::from_secs(5)).expect("a time limit");
        database.execute("DELETE FROM claims WHERE name = ?1", [name.as_str()]).expect("the claims are there");
    }
}

async fn connect(path: String) -> Locks {
    Locks::new(Sqlite::at(path)).await.expect("the file can be opened")
}

lockhouse_testkit::conformance!(Embedded::new(), taker: connect);
