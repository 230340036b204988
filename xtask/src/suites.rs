//! The test programs: a line for each that ends well, and all it said for one that does not.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::children::{self, Process};
use crate::interrupt;
use crate::problem::Problem;
use crate::workspace::Workspace;

/// So many run at a time: they mostly wait, for leases to end and for servers to come back.
const AT_ONCE: usize = 2;
/// One that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// How often they are looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// One program, as cargo built it.
#[derive(Debug, PartialEq)]
struct Program {
    /// Its package's folder in the workspace, and its target there.
    name: String,
    package: String,
    file: PathBuf,
    /// Where it expects to be run.
    folder: PathBuf,
}

/// A program that runs.
#[derive(Debug)]
struct Running {
    name: String,
    package: String,
    process: Process,
    output: File,
    begun: Instant,
}

/// Has cargo build the test programs, and runs them all, whatever becomes of some.
pub(crate) fn run(
    workspace: &Workspace,
    build: &[&str],
    filters: &[String],
    variables: &[(&str, OsString)],
) -> Result<(), Problem> {
    let mut waiting = built(workspace, build)?;
    println!("{} test programs:", waiting.len());
    let (mut running, mut failed) = (Vec::new(), Vec::new());
    while !(waiting.is_empty() && running.is_empty()) {
        interrupt::check()?;
        while running.len() < AT_ONCE
            && let Some(next) = next(&waiting, &running)
        {
            running.push(start(waiting.remove(next), filters, variables)?);
        }
        let mut at = 0;
        while at < running.len() {
            match running[at].passed() {
                None => at += 1,
                Some(passed) => {
                    let program = running.swap_remove(at);
                    if !passed {
                        failed.push(program.name.clone());
                    }
                    program.report(passed)?;
                }
            }
        }
        thread::sleep(GLANCE);
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Problem::new("tests failed").because(format!("in {}; their own words are above", failed.join(", "))))
}

/// Which program is to be started. Two of one package press the same server, and wait for each other; so it is one of
/// the package that has the most to do among those that do nothing.
fn next(waiting: &[Program], running: &[Running]) -> Option<usize> {
    let rests = |program: &Program| running.iter().all(|other| other.package != program.package);
    let to_do = |program: &Program| waiting.iter().filter(|other| other.package == program.package).count();
    (0..waiting.len()).filter(|&at| rests(&waiting[at])).max_by_key(|&at| (to_do(&waiting[at]), std::cmp::Reverse(at)))
}

fn built(workspace: &Workspace, arguments: &[&str]) -> Result<Vec<Program>, Problem> {
    let mut messages = scratch()?;
    let mut cargo = children::tied("cargo", None, "KILL")?;
    cargo.args(arguments).args(["--no-run", "--message-format=json-render-diagnostics"]);
    cargo.current_dir(workspace.root()).stdout(copy(&messages)?);
    let status = Process::start("cargo", cargo, Signal::TERM)?.finish()?;
    if !status.success() {
        return Err(Problem::new("the tests cannot be built").because(format!("cargo ended with {status}")));
    }
    Ok(text(&mut messages)?.lines().filter_map(|line| program(workspace.root(), line)).collect())
}

/// The test program that a message of cargo's is about.
fn program(root: &Path, message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let file = message["executable"].as_str()?.into();
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
    Some(Program { name: format!("{package} {}", message["target"]["name"].as_str()?), package, file, folder })
}

fn start(program: Program, filters: &[String], variables: &[(&str, OsString)]) -> Result<Running, Problem> {
    let output = scratch()?;
    let mut command = children::tied(&program.file, None, "KILL")?;
    command.args(filters).current_dir(&program.folder).envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdout(copy(&output)?).stderr(copy(&output)?);
    let process = Process::start(&program.name, command, Signal::TERM)?;
    Ok(Running { name: program.name, package: program.package, process, output, begun: Instant::now() })
}

impl Running {
    /// Whether it ended well, if it ended. One that hangs did not.
    fn passed(&mut self) -> Option<bool> {
        let ended = self.process.ended().map(|status| status.success());
        ended.or_else(|| (self.begun.elapsed() > LIMIT).then_some(false))
    }

    /// Says how it went: in one line, and in its own words if it failed.
    fn report(mut self, passed: bool) -> Result<(), Problem> {
        let took = self.begun.elapsed().as_secs_f64();
        let said = text(&mut self.output)?;
        let counts = said.lines().rev().find_map(|line| line.strip_prefix("test result: "));
        let counts = counts.unwrap_or("no result").split("; finished").next().unwrap_or_default();
        println!("{:>7.1} s  {:<36} {counts}", took, self.name);
        if !passed {
            println!("{said}");
            println!("{} FAILED (its words are above)", self.name);
        }
        Ok(())
    }
}

fn scratch() -> Result<File, Problem> {
    tempfile::tempfile().map_err(|error| unwritable(&error))
}

fn copy(file: &File) -> Result<File, Problem> {
    file.try_clone().map_err(|error| unwritable(&error))
}

fn unwritable(error: &std::io::Error) -> Problem {
    Problem::new("cannot write a temporary file").because(error.to_string())
}

fn text(file: &mut File) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| unwritable(&error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_known_from_what_cargo_says_of_it() {
        let message = r#"{"reason": "compiler-artifact", "manifest_path": "/w/engines/redis/Cargo.toml",
            "target": {"name": "verbs"}, "profile": {"test": true}, "executable": "/t/verbs-1"}"#;
        let verbs = Program {
            name: "engines/redis verbs".into(),
            package: "engines/redis".into(),
            file: "/t/verbs-1".into(),
            folder: "/w/engines/redis".into(),
        };
        assert_eq!(program(Path::new("/w"), message), Some(verbs));
        for other in [message.replace("true", "false"), message.replace("\"/t/verbs-1\"", "null"), "{}".into()] {
            assert_eq!(program(Path::new("/w"), &other), None);
        }
    }

    fn shell(script: &str) -> Running {
        let output = scratch().unwrap();
        let mut command = children::tied("sh", None, "KILL").unwrap();
        command.args(["-c", script]).stdout(copy(&output).unwrap());
        let process = Process::start("sh", command, Signal::TERM).unwrap();
        Running { name: "sh".into(), package: "sh".into(), process, output, begun: Instant::now() }
    }

    #[test]
    fn one_program_of_a_package_runs_at_a_time_and_the_package_with_most_to_do_is_next() {
        let program = |package: &str| Program {
            name: String::new(),
            package: package.into(),
            file: PathBuf::new(),
            folder: PathBuf::new(),
        };
        let waiting = [program("few"), program("many"), program("many"), program("sh"), program("sh"), program("sh")];
        assert_eq!(next(&waiting, &[]), Some(3));
        assert_eq!(next(&waiting, &[shell("exit 0")]), Some(1));
        assert_eq!(next(&waiting[3..], &[shell("exit 0")]), None);
    }

    #[test]
    fn a_program_passes_when_it_ends_well_and_fails_when_it_does_not_or_hangs() {
        for (script, expected) in [("exit 0", true), ("exit 101", false)] {
            let mut program = shell(script);
            let passed = loop {
                match program.passed() {
                    Some(passed) => break passed,
                    None => thread::sleep(GLANCE),
                }
            };
            assert_eq!(passed, expected);
        }
        let mut hangs = shell("sleep 600");
        assert_eq!(hangs.passed(), None);
        hangs.begun -= LIMIT;
        assert_eq!(hangs.passed(), Some(false));
    }
}
