//! Somebody sets the server's clock, forward and back by two minutes: the holder is told, and locks work afterwards.

mod servers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lockhouse_core::{Locks, Loss};
use lockhouse_redis::Redis;
use servers::Server;

const TTL: Duration = Duration::from_secs(3);

/// Compiles the shim: every machine that builds Rust has a C compiler, which links it.
fn shim(folder: &Path) -> PathBuf {
    let library = folder.join("shim.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clock/shim.c");
    let status = Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(status.expect("cc is installed").success());
    library
}

async fn told_of_a_jump(seconds: i64) {
    let folder = tempfile::tempdir().unwrap();
    let (library, clock) = (shim(folder.path()), folder.path().join("clock"));
    std::fs::write(&clock, 0i64.to_ne_bytes()).unwrap();
    let environment = [("LD_PRELOAD", library.to_str().unwrap()), ("CLOCK_FILE", clock.to_str().unwrap())];
    let server = Server::start_in(&[], &environment);
    let locks = Locks::new(Redis::at(&server.address()).unwrap()).await.unwrap();
    let mutex = locks.mutex("a").ttl(TTL);

    let guard = mutex.lock().await.unwrap();
    // Nothing is told while the clock runs as it should.
    assert!(tokio::time::timeout(TTL, guard.lost()).await.is_err(), "lost without a reason");
    // Written in place: the server has the file before its eyes.
    let file = std::fs::OpenOptions::new().write(true).open(&clock).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &seconds.to_ne_bytes(), 0).unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_when_the_clock_is_set_forward() {
    told_of_a_jump(120).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_when_the_clock_is_set_back() {
    told_of_a_jump(-120).await;
}
