//! What a lock costs a short command: plain `true` against `lockhouse run x -- true` on the embedded engine, in turns.
//!
//! `cargo bench -p lockhouse-cli --bench startup`
#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the lock file");
    let engine = format!("sqlite:{}", folder.path().join("locks.db").display());
    let lockhouse = env!("CARGO_BIN_EXE_lockhouse");
    let run = |program: &str, arguments: &[&str]| {
        let started = Instant::now();
        let status =
            Command::new(program).args(arguments).env("LOCKHOUSE_ENGINE", &engine).stdin(Stdio::null()).status();
        assert!(status.expect("it starts").success());
        started.elapsed()
    };
    let under_lock = ["run", "x", "--", "true"];
    run(lockhouse, &under_lock);
    let (mut plain, mut locked) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(run("true", &[]));
        locked.push(run(lockhouse, &under_lock));
    }
    let at = |times: &mut Vec<Duration>, part: usize| {
        times.sort_unstable();
        times[(times.len() - 1) * part / 100]
    };
    println!("{ROUNDS} rounds            median       90 %      fastest");
    for (name, times) in [("true", &mut plain), ("lockhouse run x -- true", &mut locked)] {
        println!("{name:<24} {:>9.2?} {:>9.2?} {:>9.2?}", at(times, 50), at(times, 90), at(times, 0));
    }
    println!("a lock costs             {:>9.2?}", at(&mut locked, 50).saturating_sub(at(&mut plain, 50)));
}
