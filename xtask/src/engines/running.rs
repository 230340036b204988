//! Servers that were started for a run.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::finding;
use super::place::Place;
use super::server::{Probe, Server};
use crate::children::{self, Process};
use crate::interrupt;
use crate::problem::Problem;
use crate::workspace::Workspace;

/// Until then a server must answer. Generous: a busy machine takes many times what an idle one does.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two questions to a server that is not ready yet.
const PAUSE: Duration = Duration::from_millis(50);
/// A server that ended at once may have lost its port to somebody else: it is tried again with other ports.
const ATTEMPTS: usize = 3;
/// How much of a server's log is shown when it failed.
const LOG_LINES: usize = 20;

/// Running servers. Dropping them ends them.
#[derive(Debug, Default)]
pub(crate) struct Servers(Vec<Running>);

#[derive(Debug)]
struct Running {
    server: &'static Server,
    url: String,
    // Before the place: the process must have ended when its folder is removed.
    process: Process,
    place: Place,
}

impl Servers {
    /// Starts these servers and waits until each is ready.
    pub(crate) fn start(workspace: &Workspace, servers: &[&'static Server]) -> Result<Self, Problem> {
        let mut started = Self::default();
        for server in servers {
            started.0.push(start(workspace, server)?);
        }
        Ok(started)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the tests must be told: variables and their values.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|running| (running.server.variable, running.url.as_str()))
    }

    /// Fails when one of them ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), Problem> {
        self.0.iter_mut().try_for_each(|running| match running.process.ended() {
            None => Ok(()),
            Some(status) => Err(Problem::new(format!("{} ended by itself", running.server.name))
                .because(format!("{status}\n{}", log_tail(running.place.path())))),
        })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // All are asked before the first is waited for.
        self.0.iter_mut().for_each(|running| running.process.ask_to_end());
    }
}

fn start(workspace: &Workspace, server: &'static Server) -> Result<Running, Problem> {
    let begun = Instant::now();
    eprint!("Starting {} … ", server.name);
    let started = (1..).find_map(|attempt| match attempt_to_start(workspace, server) {
        Err(Failure::Ended(_)) if attempt < ATTEMPTS => None,
        Err(Failure::Ended(problem) | Failure::Final(problem)) => Some(Err(problem)),
        Ok(running) => Some(Ok(running)),
    });
    let started = started.unwrap_or_else(|| Err(Problem::new(format!("{} was not started", server.name))));
    match &started {
        Ok(running) => eprintln!("{} is ready after {:.1} s", running.url, begun.elapsed().as_secs_f64()),
        Err(_) => eprintln!("failed"),
    }
    started
}

enum Failure {
    /// The server ended before it was ready.
    Ended(Problem),
    Final(Problem),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Final(problem)
    }
}

fn attempt_to_start(workspace: &Workspace, server: &'static Server) -> Result<Running, Failure> {
    let programs = finding::programs(workspace, server).map_err(|program| {
        Problem::new(format!("{} cannot be started", server.name)).because(format!("`{program}` was not found")).advise(
            format!(
                "cargo xtask engines install {}; or set {} to the URL of a running server",
                server.name, server.variable
            ),
        )
    })?;
    let account = server.account.filter(|_| rustix::process::geteuid().is_root());
    let place = Place::new(server, programs.iter().map(|(&name, file)| (name, file.as_path())), account)?;
    for words in server.prepare {
        let status = Process::start(server.name, command(&place, words, account, "KILL")?, Signal::TERM)?.finish()?;
        if !status.success() {
            return Err(failed(server, &format!("`{}` ended with {status}", words[0]), &place).into());
        }
    }
    let process = Process::start(server.name, command(&place, server.start, account, server.orphaned)?, server.stop)?;
    let mut running = Running { server, url: place.fill(server.url), process, place };
    let begun = Instant::now();
    while !is_ready(running.place.port, &server.probe) {
        interrupt::check()?;
        if let Some(status) = running.process.ended() {
            return Err(Failure::Ended(failed(server, &format!("it ended with {status}"), &running.place)));
        }
        if begun.elapsed() > PATIENCE {
            let why = format!("it gave no answer within {} s", PATIENCE.as_secs());
            return Err(failed(server, &why, &running.place).into());
        }
        thread::sleep(PAUSE);
    }
    Ok(running)
}

fn command(place: &Place, words: &[&str], account: Option<&str>, orphaned: &str) -> Result<Command, Problem> {
    let mut words = words.iter().map(|word| place.fill(word));
    let mut command = children::tied(words.next().unwrap_or_default(), account, orphaned)?;
    let log = place.path().join("log");
    let file = File::options().create(true).append(true).open(&log);
    let file = file.map_err(|error| Problem::file("write", &log, &error))?;
    let twin = file.try_clone().map_err(|error| Problem::file("write", &log, &error))?;
    // Its own folder, so that a core file or a stray log goes with it.
    command.args(words).current_dir(place.path()).stdout(file).stderr(twin);
    Ok(command)
}

fn failed(server: &Server, why: &str, place: &Place) -> Problem {
    let log = log_tail(place.path()).replace(&place.path().display().to_string(), "…");
    Problem::new(format!("{} cannot be started", server.name)).because(format!("{why}\n{log}")).advise(format!(
        "set {} to the URL of a running server, or LOCKHOUSE_SKIP={} to leave it out",
        server.variable, server.name
    ))
}

fn log_tail(folder: &Path) -> String {
    let log = std::fs::read(folder.join("log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn is_ready(port: u16, probe: &Probe) -> bool {
    ask(port, probe).unwrap_or(false)
}

fn ask(port: u16, probe: &Probe) -> std::io::Result<bool> {
    let wait = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), wait)?;
    stream.set_read_timeout(Some(wait))?;
    stream.write_all(probe.ask)?;
    let (mut answer, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let length = stream.read(&mut part)?;
        answer.extend_from_slice(&part[..length]);
        if (probe.is_answer)(&answer) || length == 0 {
            return Ok((probe.is_answer)(&answer));
        }
    }
}

#[cfg(test)]
mod tests;
