//! Who takes part, and how a process of theirs is started. What is missing is fetched into the target folder, once.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

use lockhouse_testkit::python_with;

use crate::Outcome;

const NODE_PACKAGES: [&str; 2] = ["redlock@4.2.0", "ioredis@5"];

/// One who takes part.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Milliseconds between two attempts; 0 is its default.
    pub(crate) pause: u64,
    program: Vec<PathBuf>,
}

impl Peer {
    /// A process of its.
    pub(crate) fn command(&self, url: &str, key: &str, seconds: u64) -> Command {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).args([url, key, &seconds.to_string(), &self.pause.to_string()]);
        command
    }
}

/// Everybody who can be had; who cannot is told.
pub(crate) fn everybody() -> Outcome<Vec<Peer>> {
    let program = std::env::current_exe()?;
    let folder = program.ancestors().nth(3).unwrap_or(Path::new(".")).join("peers");
    std::fs::create_dir_all(&folder)?;
    let script = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name);
    let mut peers = Vec::new();
    let mut add = |name, pause, program: &[PathBuf]| peers.push(Peer { name, pause, program: program.to_vec() });
    add("lockhouse", 0, &[program.clone(), "lockhouse".into()]);
    for pause in [0, 5] {
        add("rslock", pause, &[program.clone(), "rslock".into()]);
    }
    match catch_unwind(|| python_with("redis", &folder)) {
        Ok(python) => [0, 5].map(|pause| add("redis-py's Lock", pause, &[python.clone(), script("handover.py")])),
        Err(_) => [(); 2].map(|()| println!("missing: redis-py's Lock, since Python's client could not be installed")),
    };
    match node(&folder, &script("handover.js")) {
        Some(script) => [0, 5].map(|pause| add("node's redlock", pause, &["node".into(), script.clone()])),
        None => [(); 2].map(|()| println!("missing: node's redlock, since it could not be installed with npm")),
    };
    Ok(peers)
}

/// The script beside node's packages, where node looks for them.
fn node(folder: &Path, script: &Path) -> Option<PathBuf> {
    let home = folder.join("node");
    let here = home.join("handover.js");
    std::fs::create_dir_all(&home).ok()?;
    std::fs::copy(script, &here).ok()?;
    if !home.join("node_modules/redlock").exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund"]).args(NODE_PACKAGES).current_dir(&home);
        npm.status().ok().filter(std::process::ExitStatus::success)?;
    }
    let works = Command::new("node").args(["-e", "require('redlock')"]).current_dir(&home).status().ok()?.success();
    works.then_some(here)
}
