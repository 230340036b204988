//! Clients and claims for the tests.
#![allow(dead_code, reason = "every test file uses some of it")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, Connector, Engine, Name, Owner, Patience, Side, Standing};
use lockhouse_sqlite::Sqlite;

/// Which part a child process plays, and where.
pub(crate) const PART: &str = "LOCKHOUSE_TEST_PART";
pub(crate) const PLACE: &str = "LOCKHOUSE_TEST_PLACE";

/// Both sides of a client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) front: Arc<dyn Engine>,
    pub(crate) keeper: Arc<dyn Engine>,
}

pub(crate) async fn client(path: &Path) -> Client {
    try_client(path).await.unwrap()
}

pub(crate) async fn try_client(path: &Path) -> lockhouse_core::Result<Client> {
    let sqlite = Sqlite::at(path);
    let keeper = sqlite.connect(Side::Keeper).await?;
    Ok(Client { front: sqlite.connect(Side::Front).await?, keeper })
}

/// A claim for a mutex, with a lease that no test outlives.
pub(crate) fn claim(name: &str) -> Claim {
    Claim::on(Name::new(name).unwrap(), Owner::new("tester"), Duration::from_secs(600))
}

/// A claim of a mutex that does not wait.
pub(crate) fn eager(name: &str) -> Claim {
    Claim { patience: Patience::None, ..claim(name) }
}

/// The token of a claim that must be granted.
pub(crate) fn token(standing: Standing) -> u64 {
    match standing {
        Standing::Granted { token } => token,
        other => panic!("not granted but {other:?}"),
    }
}

/// Waits as a client does: asks, then waits to be told, and asks again.
pub(crate) async fn wait(engine: &Arc<dyn Engine>, claim: &Claim) -> u64 {
    loop {
        if let Standing::Granted { token } = engine.claim(claim).await.unwrap() {
            return token;
        }
        if let Some(Standing::Granted { token }) = engine.moved(claim).await.unwrap() {
            return token;
        }
    }
}

/// The names of the files in a folder.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    files
}

/// This test program, as a child that plays a part: the test of this name runs alone, with `PART` and `PLACE` set.
pub(crate) fn child(test: &str, part: &str, place: &Path, under: &[&str]) -> Command {
    let exe = std::env::current_exe().unwrap();
    let mut words = under.iter().map(std::ffi::OsString::from).chain([exe.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env(PLACE, place).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// The part that this process plays, if it is such a child.
#[expect(clippy::disallowed_methods, reason = "a test tells its child by the environment")]
pub(crate) fn part() -> Option<(String, std::path::PathBuf)> {
    Some((std::env::var(PART).ok()?, std::env::var_os(PLACE)?.into()))
}

/// A child that is killed when the test ends, however it ends.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Until something is so, with a generous limit.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !so().await {
        assert!(begin.elapsed() < Duration::from_secs(20), "never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
