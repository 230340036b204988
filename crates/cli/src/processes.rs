//! Which processes there are, and who of them belongs to a command.

use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process, kill_process_group};

/// How far a command's processes are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The process group that the command and its warden have for themselves.
    Group,
    /// On a terminal the command stays in the job that the shell made, with `lockhouse` and perhaps a pipeline in it:
    /// there it is the descendants, as long as they did not leave the session.
    Session,
}

impl Reach {
    /// The living processes that belong to the command, seen from its warden.
    pub(crate) fn others(self) -> Vec<Pid> {
        let ours = match self {
            Self::Group => in_group(getpgrp()),
            Self::Session => descendants(getpid()),
        };
        ours.into_iter().filter(|pid| *pid != getpid()).collect()
    }

    /// Sends them a signal, from the warden. In its own group the warden is hit as well, and has to be prepared.
    pub(crate) fn signal(self, signal: Signal) {
        match self {
            // Fails only when nobody is left.
            Self::Group => drop(kill_process_group(getpgrp(), signal)),
            Self::Session => signal_each(&self.others(), signal),
        }
    }
}

/// Signals processes one by one. One that is gone by now needs no signal.
pub(crate) fn signal_each(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _ = kill_process(*pid, signal);
    }
}

/// The living members of a process group.
pub(crate) fn in_group(group: Pid) -> Vec<Pid> {
    living().filter(|process| process.group == group.as_raw_nonzero().get()).filter_map(Process::id).collect()
}

/// The living descendants of a process that are in its session. For those of processes that died in between, their
/// ancestor has to be a subreaper.
pub(crate) fn descendants(ancestor: Pid) -> Vec<Pid> {
    let everyone: Vec<Process> = living().collect();
    let Some(session) = everyone.iter().find(|one| one.pid == ancestor.as_raw_nonzero().get()).map(|one| one.session)
    else {
        return Vec::new();
    };
    let mut found = vec![ancestor.as_raw_nonzero().get()];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(everyone.iter().filter(|one| one.parent == parent && one.session == session).map(|one| one.pid));
        at += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

/// One line of `/proc/PID/stat`, as far as it is needed.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    dead: bool,
}

impl Process {
    fn id(self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }

    /// `PID (NAME) STATE PARENT GROUP SESSION …`, where the name may contain anything.
    fn parse(stat: &str) -> Option<Self> {
        let pid = stat.split_once(' ')?.0.parse().ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let dead = matches!(fields.next()?, "Z" | "X");
        let mut number = || fields.next()?.parse().ok();
        Some(Self { pid, parent: number()?, group: number()?, session: number()?, dead })
    }
}

/// Every living process. A zombie is dead: it only waits to be asked how it ended. Nothing where there is no `/proc`.
fn living() -> impl Iterator<Item = Process> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folders.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    let stats = pids.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter_map(|stat| Process::parse(&stat)).filter(|process| !process.dead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_confuse_us() {
        let process = Process::parse("7 (a) Z 1 (b) S 5 6 4 0 -1").unwrap();
        assert_eq!(process, Process { pid: 7, parent: 5, group: 6, session: 4, dead: false });
        assert_eq!(Process::parse(""), None);
    }

    #[test]
    fn a_child_is_a_descendant_until_it_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(descendants(getpid()).contains(&pid));
        assert!(in_group(getpgrp()).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(getpid()).contains(&pid));
    }
}
