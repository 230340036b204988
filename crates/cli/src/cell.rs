//! `lockhouse cell`: the optimistic lock, for scripts.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use lockhouse::{CellHandle, Locks, Written};
use serde_json::{Value, json};

use crate::args::Cell;
use crate::complaint::{Complaint, Outcome};
use crate::exit::Exit;
use crate::here::Here;
use crate::table::print;

/// How often an update starts over because somebody else was faster: as often as the library's own.
const ATTEMPTS: u32 = 64;

/// Reads or writes a cell.
pub(crate) async fn cell(here: &Here, args: Cell) -> Outcome<Exit> {
    let locks = here.connect().await?;
    match args {
        Cell::Get { name } => get(here, &locks, &name).await,
        Cell::Set { name, value, if_version, token } => {
            let cell = fenced(&locks, &name, token);
            let value = given(value)?;
            let written = match if_version {
                Some(version) => cell.write_if(version, value).await?,
                None => cell.write(value).await?,
            };
            match written {
                Written::Yes { version } => told(here, &name, version),
                Written::Changed { version } => {
                    let wanted = if_version.unwrap_or_default();
                    Err(Complaint::new(
                        Exit::Busy,
                        format!("{name} is at version {version}, not {wanted}: nothing is written"),
                    )
                    .help(format!("lockhouse cell get {name:?} --json, and again with --if-version {version}")))
                }
                Written::Stale { newest } => Err(stale(&name, token, newest)),
            }
        }
        Cell::Update { name, token, command } => {
            update(here, &fenced(&locks, &name, token), &name, token, &command).await
        }
    }
}

fn fenced(locks: &Locks, name: &str, token: Option<u64>) -> CellHandle {
    let cell = locks.cell(name);
    token.map_or(cell.clone(), |token| cell.fenced(token))
}

async fn get(here: &Here, locks: &Locks, name: &str) -> Outcome<Exit> {
    let cell = locks.cell(name).read().await?;
    if !here.json {
        print(&cell.value)?;
        return Ok(Exit::Done);
    }
    // A value that is not text is told as its bytes.
    let value = String::from_utf8(cell.value).map_or_else(|bytes| Value::from(bytes.into_bytes()), Value::from);
    print(format!("{}\n", json!({ "name": name, "version": cell.version, "token": cell.token, "value": value })))?;
    Ok(Exit::Done)
}

fn given(value: OsString) -> Outcome<Vec<u8>> {
    if value != "-" {
        return Ok(value.into_vec());
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| Complaint::usage(format!("standard input cannot be read: {error}")))?;
    Ok(bytes)
}

fn told(here: &Here, name: &str, version: u64) -> Outcome<Exit> {
    if here.json {
        print(format!("{}\n", json!({ "name": name, "version": version })))?;
    } else {
        here.voice.say(&format!("{name} is at version {version}"), &Value::Null);
    }
    Ok(Exit::Done)
}

fn stale(name: &str, token: Option<u64>, newest: u64) -> Complaint {
    let ours = token.unwrap_or_default();
    Complaint::new(
        Exit::Lost,
        format!("{name} has seen token {newest}, which is newer than {ours}: nothing is written"),
    )
    .help("the lock belongs to somebody else by now: take it again")
}

async fn update(here: &Here, cell: &CellHandle, name: &str, token: Option<u64>, command: &[OsString]) -> Outcome<Exit> {
    for _ in 0..ATTEMPTS {
        let seen = cell.read().await?;
        let value = match changed(command, &seen.value)? {
            Ok(value) => value,
            Err(exit) => return Ok(exit),
        };
        match cell.write_if(seen.version, value).await? {
            Written::Yes { version } => return told(here, name, version),
            Written::Stale { newest } => return Err(stale(name, token, newest)),
            // Each attempt takes as long as the command does, which is as good as a random pause.
            Written::Changed { .. } => {}
        }
    }
    Err(Complaint::new(Exit::Busy, format!("others wrote to {name} in between {ATTEMPTS} times"))
        .help(format!("lockhouse run {name:?} -- lockhouse cell update …, to take turns")))
}

/// The new value by the command's word, or how it failed.
fn changed(command: &[OsString], value: &[u8]) -> Outcome<Result<Vec<u8>, Exit>> {
    let [program, arguments @ ..] = command else { return Ok(Err(Exit::Usage)) };
    let cannot = |error: std::io::Error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let exit = if missing { Exit::NotFound } else { Exit::CannotRun };
        let program = program.to_string_lossy();
        Complaint::new(exit, format!("{program} cannot be run: {error}")).help(format!("command -v {program}"))
    };
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut input = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // Written beside reading: a value larger than a pipe would otherwise wait for itself. A command that does not
        // read it all is its own business.
        scope.spawn(move || input.as_mut().map(|input| input.write_all(value)));
        child.wait_with_output()
    });
    let output = output.map_err(cannot)?;
    Ok(match (output.status.code(), output.status.signal()) {
        (Some(0), _) => Ok(output.stdout),
        (Some(code), _) => Err(Exit::Command(u8::try_from(code).unwrap_or(u8::MAX))),
        (None, signal) => Err(Exit::Signal(signal.unwrap_or_default())),
    })
}
