//! A counter in a plain file, read and written by many processes under the lock, loses nothing.

mod clients;

use std::fs;
use std::path::Path;

use clients::{Killed, child, part};
use lockhouse_core::Locks;
use lockhouse_sqlite::Sqlite;

const PROCESSES: usize = 8;
const INCREMENTS: usize = 1_000;

async fn increment(path: &Path) {
    let locks = Locks::new(Sqlite::at(path)).await.unwrap();
    let counter = path.with_extension("counter");
    for _ in 0..INCREMENTS {
        let guard = locks.mutex("counter").lock().await.unwrap();
        let seen: usize = fs::read_to_string(&counter).unwrap().parse().unwrap();
        fs::write(&counter, (seen + 1).to_string()).unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn eight_processes_count_to_eight_thousand() {
    if let Some((_, path)) = part() {
        return increment(&path).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    fs::write(path.with_extension("counter"), "0").unwrap();
    let test = "eight_processes_count_to_eight_thousand";
    let spawn = |_| Killed(child(test, "counts", &path, &[]).spawn().unwrap());
    let mut processes: Vec<Killed> = (0..PROCESSES).map(spawn).collect();
    for process in &mut processes {
        assert!(process.0.wait().unwrap().success(), "a process failed");
    }
    let counted = fs::read_to_string(path.with_extension("counter")).unwrap();
    assert_eq!(counted, (PROCESSES * INCREMENTS).to_string());
}
