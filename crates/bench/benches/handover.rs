//! Hand-over between two processes on the embedded engine.
//!
//! Two tasks of another process take the lock and give it back in a loop, so that somebody is in line whenever we are.
//! The line is fair: each of our turns is three hand-overs, two of them from process to process.

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
            let contend = async || while pair(&locks).await.is_ok() {};
            tokio::join!(contend(), contend());
        });
    }
    let folder = tempfile::tempdir().expect("a folder");
    let locks = runtime.block_on(sqlite(folder.path())).expect("sqlite");
    let me = std::env::current_exe().expect("this program");
    let other = Command::new(me).arg(OTHER).arg(folder.path()).spawn().expect("another process");
    let _other = KillOnDrop(other);
    let mut criterion = Criterion::default().configure_from_args();
    criterion.bench_function("three hand-overs, two of them between processes", |bench| {
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
