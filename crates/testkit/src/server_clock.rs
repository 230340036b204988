//! A server's wall clock that somebody sets, for engines whose server ends leases by it.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;

use lockhouse_core::{Connector, Locks, Loss};
use tempfile::TempDir;

/// The lease of what is held meanwhile.
const TTL: Duration = Duration::from_secs(3);

/// The wall clock of servers that were started with its [`variables`](Self::variables).
#[derive(Debug)]
pub struct ServerClock {
    folder: TempDir,
}

impl ServerClock {
    /// A clock that is right. Compiles what is loaded into the server: every machine that builds Rust has a C compiler,
    /// which links it.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it starts a compiler")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is a temporary folder");
        // Some servers run as a user of their own.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let source = folder.path().join("shim.c");
        std::fs::write(&source, include_str!("server_clock/shim.c")).expect("the folder is ours");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(folder.path().join("shim.so")).arg(source);
        assert!(compiler.status().expect("cc is installed").success(), "the shim cannot be compiled");
        std::fs::write(folder.path().join("clock"), 0i64.to_ne_bytes()).expect("the folder is ours");
        Self { folder }
    }

    /// What a server's environment must have.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, String); 2] {
        let path = |name| self.folder.path().join(name).display().to_string();
        [("LD_PRELOAD", path("shim.so")), ("CLOCK_FILE", path("clock"))]
    }

    /// Sets it so many seconds ahead of the time, or behind it.
    ///
    /// # Panics
    /// When its folder is gone.
    pub fn set(&self, seconds: i64) {
        // Written in place: the server has the file before its eyes.
        let file = OpenOptions::new().write(true).open(self.folder.path().join("clock")).expect("it is ours");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("it is ours");
    }

    /// Sets the clock of a server while somebody holds a lock there: the holder is told, and locks work afterwards.
    ///
    /// # Panics
    /// When that is not so.
    pub async fn is_watched(&self, server: impl Connector + 'static, seconds: i64) {
        let locks = Locks::new(server).await.unwrap();
        let mutex = locks.mutex("a").ttl(TTL);

        let guard = mutex.lock().await.unwrap();
        // Nothing is told while the clock runs as it should.
        assert!(tokio::time::timeout(TTL, guard.lost()).await.is_err(), "lost without a reason");
        self.set(seconds);
        let loss = tokio::time::timeout(TTL, guard.lost()).await.expect("the holder is told");
        assert!(matches!(loss, Loss::Gone | Loss::Expired), "{loss:?}");
        let before = guard.token();
        drop(guard);

        let next = tokio::time::timeout(3 * TTL, mutex.lock()).await.expect("the lock is not stuck").unwrap();
        assert!(next.token() > before);
        // The new setting is as good as the old one.
        assert!(tokio::time::timeout(TTL, next.lost()).await.is_err(), "lost without a reason");
        next.release().await.unwrap();
    }
}
