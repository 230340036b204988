//! Processes that never outlive us: ended by the process id that was started, also when we are interrupted.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::environment;
use crate::interrupt;
use crate::problem::Problem;

/// How often a child is looked at. Short against anything a person notices, long against the cost of looking.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a child may take to end after it was asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// A running child. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    /// The signal that asks this program to end.
    stop: Signal,
    /// Whether it leads a process group of its own, so that its own children can be ended with it. A program that asks
    /// for a password must not: only the terminal's foreground group may read from it.
    leads: bool,
    /// When it was asked to end.
    asked: Option<Instant>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a program in a process group of its own, without standard input.
    pub(crate) fn start(name: &str, mut command: Command, stop: Signal) -> Result<Self, Problem> {
        command.process_group(0).stdin(Stdio::null());
        Self::spawn(name, command, stop, true)
    }

    /// Starts a program that may talk to the terminal.
    pub(crate) fn start_at_terminal(name: &str, command: Command) -> Result<Self, Problem> {
        Self::spawn(name, command, Signal::INT, false)
    }

    fn spawn(name: &str, mut command: Command, stop: Signal, leads: bool) -> Result<Self, Problem> {
        interrupt::check()?;
        let child = command.spawn().map_err(|error| {
            Problem::new(format!("cannot start {name}"))
                .because(format!("{}: {error}", command.get_program().display()))
                .advise("check that it is installed and in PATH")
        })?;
        Ok(Self { name: name.to_owned(), child, stop, leads, asked: None, status: None })
    }

    /// Waits until it ended by itself. When a signal asks us to end, it is ended first.
    pub(crate) fn finish(mut self) -> Result<ExitStatus, Problem> {
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            interrupt::check()?;
            thread::sleep(GLANCE);
        }
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Asks it to end, without waiting: several can be asked before the first is waited for.
    pub(crate) fn ask_to_end(&mut self) {
        if self.asked.is_none() && self.ended().is_none() {
            self.asked = Some(Instant::now());
            self.signal(self.stop);
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        // It may have ended in between; then there is nobody to tell.
        let _ = if self.leads { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }

    fn end(&mut self, grace: Duration) {
        self.ask_to_end();
        // It is looked at without being reaped: until then its id cannot become somebody else's.
        while self.status.is_none() && !self.has_exited() {
            // What runs at the terminal is a package manager: killed halfway, it leaves a broken system.
            if self.leads && self.asked.is_none_or(|asked| asked.elapsed() > grace) {
                eprintln!("{} did not end within {grace:?}: killing it", self.name);
                break;
            }
            thread::sleep(GLANCE);
        }
        if self.status.is_none() {
            if self.leads {
                // Also what it started and did not wait for.
                self.signal(Signal::KILL);
            }
            self.status = self.child.wait().ok();
        }
    }

    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(GRACE);
    }
}

/// A command whose process the kernel signals when we die without having ended it, as far as this system can do that.
///
/// `setpriv` replaces itself by the program, so the process id stays the one that was started. With an account, the
/// program runs under it. What the kernel watches is the thread that started the process: start servers from the main
/// one.
pub(crate) fn tied(program: impl AsRef<OsStr>, account: Option<&str>, orphaned: &str) -> Result<Command, Problem> {
    if !can_tie() {
        return match account {
            None => Ok(Command::new(program)),
            Some(account) => Err(Problem::new(format!("cannot run a program as {account}"))
                .because("`setpriv --pdeathsig` is missing")
                .advise("install util-linux 2.33 or newer, or run this as an ordinary user")),
        };
    }
    let mut command = Command::new("setpriv");
    if let Some(account) = account {
        command.args([&format!("--reuid={account}"), &format!("--regid={account}"), "--clear-groups"]);
    }
    command.args(["--pdeathsig", orphaned, "--"]).arg(program);
    Ok(command)
}

fn can_tie() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        environment::program("setpriv")
            .and_then(|setpriv| Command::new(setpriv).arg("--help").output().ok())
            .is_some_and(|answer| String::from_utf8_lossy(&answer.stdout).contains("--pdeathsig"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = tied("sh", None, "KILL").unwrap();
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_exit_code_comes_through() {
        let process = Process::start("sh", shell("exit 7"), Signal::TERM).unwrap();
        assert_eq!(process.finish().unwrap().code(), Some(7));
    }

    /// Starts a shell with a child of its own, and waits until both run.
    fn family(shell_first: &str, child: &str) -> (Process, Pid) {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        let script = format!("{shell_first} {child} & echo $! > {0}.new; mv {0}.new {0}; wait", note.display());
        let process = Process::start("sh", shell(&script), Signal::TERM).unwrap();
        while !note.exists() {
            thread::sleep(GLANCE);
        }
        let child = std::fs::read_to_string(&note).unwrap().trim().parse().unwrap();
        (process, Pid::from_raw(child).unwrap())
    }

    fn await_end(pid: Pid) {
        let begun = Instant::now();
        while rustix::process::test_kill_process(pid).is_ok() && !is_zombie(pid) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{pid:?} is still there");
            thread::sleep(GLANCE);
        }
    }

    /// Dead, but nobody has asked how it ended yet: where process 1 does not do that, it stays so.
    fn is_zombie(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| stat.contains(") Z "))
    }

    #[test]
    fn dropping_ends_the_process_and_its_children() {
        let (process, child) = family("", "sleep 600");
        drop(process);
        await_end(child);
    }

    #[test]
    fn a_child_that_ignores_the_request_does_not_outlive_its_parent() {
        let (process, child) = family("", "sh -c 'trap \"\" TERM; sleep 600'");
        // Time to set the trap; if it is too short, the test merely shows less.
        thread::sleep(Duration::from_millis(200));
        drop(process);
        await_end(child);
    }

    #[test]
    fn one_that_ignores_the_request_is_killed() {
        let (mut process, child) = family("trap '' TERM;", "sleep 600");
        process.end(Duration::from_millis(100));
        assert!(process.ended().is_some());
        await_end(child);
    }
}
