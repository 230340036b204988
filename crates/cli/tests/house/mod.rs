//! A house for a test: a folder with a lock file of its own, and the real binary.

// Each test file uses a part of this.
#![allow(dead_code)]

pub(crate) mod redis;

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// The binary under test.
pub(crate) const LOCKHOUSE: &str = env!("CARGO_BIN_EXE_lockhouse");
/// Longer than anything takes on a busy machine: who waits this long has found a bug.
pub(crate) const LONG: Duration = Duration::from_secs(120);

pub(crate) struct House {
    folder: TempDir,
}

impl House {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path("locks.db").display())
    }

    /// `lockhouse` in this house, with nothing of the tester's own settings.
    pub(crate) fn lockhouse(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(LOCKHOUSE);
        command.args(arguments);
        self.settle(&mut command);
        command
    }

    /// Gives any command the house's folder and environment.
    pub(crate) fn settle(&self, command: &mut Command) {
        let variables = ["LOCKHOUSE_CONFIG", "LOCKHOUSE_HELD", "LOCKHOUSE_NAME", "LOCKHOUSE_TOKEN", "XDG_STATE_HOME"];
        for variable in variables.iter().chain(&["XDG_CONFIG_HOME", "NO_COLOR"]) {
            command.env_remove(variable);
        }
        command.current_dir(self.folder.path()).env("HOME", self.folder.path()).env("USER", "tester");
        command.env("LOCKHOUSE_ENGINE", self.url()).env("LH", LOCKHOUSE).stdin(Stdio::null());
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.lockhouse(arguments).output().unwrap()
    }

    /// The exit code of a whole `lockhouse`.
    pub(crate) fn code(&self, arguments: &[&str]) -> i32 {
        self.output(arguments).status.code().unwrap()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Started {
        let mut command = self.lockhouse(arguments);
        Started(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Starts a `lockhouse` that holds `name` until the file `go` is there, and waits until it does.
    pub(crate) fn hold(&self, name: &str) -> Started {
        let holder = self.start(&["run", name, "-c", "touch held; until [ -e go ]; do sleep 0.02; done"]);
        self.wait_for_file("held");
        holder
    }

    pub(crate) fn wait_for_file(&self, name: &str) {
        wait_for(name, || self.path(name).exists());
    }

    pub(crate) fn touch(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A process id that a command wrote to a file.
    pub(crate) fn pid(&self, name: &str) -> i32 {
        wait_for(name, || self.read(name).ends_with('\n'));
        self.read(name).trim().parse().unwrap()
    }

    /// The line of a name, as `show --json` tells it.
    pub(crate) fn line(&self, name: &str) -> serde_json::Value {
        let output = self.output(&["show", name, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// How many stand in a line in that state.
    pub(crate) fn count(&self, name: &str, state: &str) -> usize {
        self.line(name)["places"].as_array().unwrap().iter().filter(|place| place["state"] == state).count()
    }

    pub(crate) fn wait_for_waiters(&self, name: &str, count: usize) {
        wait_for("waiters", || self.count(name, "waits") == count);
    }
}

/// A `lockhouse` that was started. It does not outlive its test.
pub(crate) struct Started(pub(crate) Child);

impl Started {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn status(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < LONG, "it did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn code(&mut self) -> i32 {
        self.status().code().expect("it ended by itself")
    }

    pub(crate) fn stderr(&mut self) -> String {
        std::io::read_to_string(self.0.stderr.take().unwrap()).unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < LONG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The state of a process as the kernel tells it; `None` when it is gone.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process lives: a zombie is dead.
pub(crate) fn lives(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// A shell line whose process and grandchild write their ids down, ignore SIGTERM and would stay for ever.
pub(crate) const FAMILY: &str = "trap '' TERM; sh -c 'echo $$ > grandchild; while :; do sleep 1; done' & \
                          echo $$ > child; while :; do sleep 1; done";

/// What the next holder does: looks whether anybody of the family is still there.
pub(crate) const LOOK: &str = "for who in child grandchild; do \
                        if kill -0 $(cat $who) 2>/dev/null && ! grep -q '^State:.Z' /proc/$(cat $who)/status; \
                        then echo $who >> overlap; fi; done; touch next";
