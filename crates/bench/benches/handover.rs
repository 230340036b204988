//! Hand-over between two processes on the embedded engine.
//!
//! Another process takes the lock and gives it back in a loop. The line is fair, so each of our turns is one of theirs
//! and one of ours: two hand-overs.

use std::path::Path;
use std::process::{Child, Command};

use criterion::Criterion;
use lockhouse_bench::{pair, sqlite};
use tokio::runtime::Builder;

/// The argument that makes this program the other process.
const OTHER: &str = "--contend-in";

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, folder] = arguments.as_slice()
        && flag == OTHER
    {
        return runtime.block_on(async {
            let locks = sqlite(Path::new(folder)).await.expect("sqlite");
            while pair(&locks).await.is_ok() {}
        });
    }
    let folder = tempfile::tempdir().expect("a folder");
    let locks = runtime.block_on(sqlite(folder.path())).expect("sqlite");
    let me = std::env::current_exe().expect("this program");
    let other = Command::new(me).arg(OTHER).arg(folder.path()).spawn().expect("another process");
    let _other = KillOnDrop(other);
    let mut criterion = Criterion::default().configure_from_args();
    criterion.bench_function("two hand-overs between two processes", |bench| {
        bench.to_async(&runtime).iter(|| async { pair(&locks).await.expect("a pair") });
    });
    criterion.final_summary();
}

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It ends by itself only when its file is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
