//! `lockhouse`: run anything under a lock, on the engine you already run.
//!
//! `run` and `elect` go: [`run`]/[`elect`] → [`under`] (wait, run, give back) → [`holding`] (the locks) and [`child`]
//! (the command) → [`warden`] (a second process that stops the command in time). The other commands are a file each.

mod above;
mod address;
mod args;
mod cell;
mod child;
mod complaint;
mod config;
mod control;
mod doctor;
mod duration;
mod elect;
mod evict;
mod eviction;
mod exit;
mod here;
mod holding;
mod lifeline;
mod listing;
mod misread;
mod pages;
mod plan;
mod processes;
mod run;
mod signals;
mod table;
mod under;
mod voice;
mod waiting;
mod warden;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::complaint::{Complaint, Outcome};
use crate::exit::Exit;
use crate::here::Here;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(complaint::bug));
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == plan::WARDEN) {
        return warden::main(arguments);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let json = cli.common.json;
    let exit = start(cli).unwrap_or_else(|complaint| {
        complaint.tell(json);
        complaint.exit
    });
    exit.into()
}

/// `--help` and `--version` arrive here as well, and are no mistake.
fn misunderstood(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done.into();
    }
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let complaint = misread::complaint(error, &words);
    complaint.tell(words.iter().take_while(|word| *word != "--").any(|word| word == "--json"));
    complaint.exit.into()
}

fn start(cli: Cli) -> Outcome<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Complaint::new(Exit::Unreachable, format!("the runtime cannot be started: {error}")))?;
    runtime.block_on(dispatch(cli))
}

async fn dispatch(cli: Cli) -> Outcome<Exit> {
    let here = Here::new(cli.common)?;
    let outcome = match cli.command {
        Command::Run(args) => run::run(&here, args).await,
        Command::Elect(args) => elect::elect(&here, args).await,
        Command::Ls(args) => listing::ls(&here, args).await,
        Command::Show(args) => listing::show(&here, args).await,
        Command::Watch(args) => listing::watch(&here, args).await,
        Command::Evict(args) => evict::evict(&here, args).await,
        Command::Cell(args) => cell::cell(&here, args).await,
        Command::Doctor(args) => doctor::doctor(&here, args).await,
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
    };
    here.leave().await;
    outcome
}
