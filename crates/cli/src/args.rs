//! The command line: every flag beside its help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::duration;
use crate::exit::Exit;

/// Run anything under a lock, on the engine you already run.
#[derive(Debug, Parser)]
#[command(name = "lockhouse", version, max_term_width = 110, after_help = Exit::table(), infer_subcommands = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The engine: a URL, or a name from the config file [else: LOCKHOUSE_ENGINE, the config file, the embedded file in
    /// the user's state folder]
    #[arg(long, global = true, value_name = "URL|NAME", help_heading = "Everywhere")]
    pub(crate) engine: Option<String>,
    /// The config file [else: LOCKHOUSE_CONFIG, ~/.config/lockhouse/config.toml]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    /// Print data, messages and errors as JSON
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
    /// Log what the client does
    #[arg(short, long, global = true, help_heading = "Everywhere", conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command under a lock
    #[command(after_help = Exit::table(), override_usage = "lockhouse run [OPTIONS] NAME... -- COMMAND...\n       \
                                                            lockhouse run [OPTIONS] NAME... -c 'LINE OF SHELL'")]
    Run(Run),
    /// Run a command while leading an election; campaign again after a loss
    #[command(after_help = Exit::table(), override_usage = "lockhouse elect [OPTIONS] NAME -- COMMAND...\n       \
                                                            lockhouse elect [OPTIONS] NAME -c 'LINE OF SHELL'")]
    Elect(Elect),
    /// List the locks that are held or waited for
    Ls(Prefix),
    /// Show who holds a lock and who waits for it
    Show(Show),
    /// Watch locks live
    Watch(Watch),
    /// End a claim as an operator: its holder is told, and its command is stopped
    Evict(Evict),
    /// Read and write cells: small versioned values, for optimistic locking
    #[command(subcommand)]
    Cell(Cell),
    /// Check an engine, and say what it promises
    Doctor(Doctor),
    /// Print the completions for a shell
    Completions(Completions),
    /// Print the manual page
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What to lock; several names are taken together, all or none
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) kind: KindFlags,
    /// How long to wait for the lock [default: for ever]
    #[arg(short, long, alias = "timeout", value_name = "TIME", value_parser = duration::parse, help_heading = "Waiting")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait: exit 75 at once if somebody else has it
    #[arg(short, long, aliases = ["nonblock", "nb"], conflicts_with = "wait", help_heading = "Waiting")]
    pub(crate) no_wait: bool,
    /// The exit code for busy instead of 75
    #[arg(long, alias = "conflict-exit-code", value_name = "CODE", help_heading = "Waiting")]
    pub(crate) busy_code: Option<u8>,
    /// Keep the name taken for at least this long, also when the command ends earlier
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "The lock")]
    pub(crate) at_least: Option<Duration>,
    #[command(flatten)]
    pub(crate) lease: Lease,
    #[command(flatten)]
    pub(crate) task: Task,
}

/// Which kind of lock: a mutex unless said.
#[derive(Debug, Args)]
pub(crate) struct KindFlags {
    /// A read-write lock, as one of many readers
    #[arg(short, long, help_heading = "The lock", conflicts_with_all = ["exclusive", "permits"])]
    pub(crate) shared: bool,
    /// A read-write lock, as its only writer: what goes with --shared
    #[arg(short = 'x', long, help_heading = "The lock", conflicts_with = "permits")]
    pub(crate) exclusive: bool,
    /// A semaphore: K of its N permits
    #[arg(long, value_name = "K/N", value_parser = permits, help_heading = "The lock")]
    pub(crate) permits: Option<(u32, u32)>,
}

fn permits(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((k, n)) if 1 <= k && k <= n => Ok((k, n)),
        _ => Err("write it like 1/3: one of three permits".to_owned()),
    }
}

/// How a lock is held, the same for `run` and `elect`.
#[derive(Debug, Args)]
pub(crate) struct Lease {
    /// How long a crash can block the lock: the lease, which is renewed while the command runs [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "The lock")]
    pub(crate) ttl: Option<Duration>,
    /// Stop the command and give the lock up after this long
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "The lock")]
    pub(crate) at_most: Option<Duration>,
    /// Higher goes ahead of waiters, never of holders
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, help_heading = "The lock")]
    pub(crate) priority: i32,
    /// Who claims, for people [default: the user]
    #[arg(long, value_name = "WHO", help_heading = "The lock")]
    pub(crate) owner: Option<String>,
    /// A word for people who look at the line
    #[arg(long, value_name = "TEXT", help_heading = "The lock")]
    pub(crate) note: Option<String>,
}

/// The command to run, and how it is stopped.
#[derive(Debug, Args)]
pub(crate) struct Task {
    /// What to do with the command when the lock is lost [default: term]
    #[arg(long, value_name = "WHAT", help_heading = "The command")]
    pub(crate) on_lost: Option<OnLost>,
    /// The time between SIGTERM and SIGKILL, both before the lock can be somebody else's [default: 5s, or less when the
    /// TTL is short]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "The command")]
    pub(crate) grace: Option<Duration>,
    /// Run a line of shell instead of a command
    #[arg(short = 'c', long = "shell", value_name = "LINE", help_heading = "The command")]
    pub(crate) shell: Option<OsString>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "shell", conflicts_with = "shell")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnLost {
    /// SIGTERM, and SIGKILL after the grace
    Term,
    /// SIGKILL at the last moment
    Kill,
    /// Let it run on without the lock
    Ignore,
}

#[derive(Debug, Args)]
pub(crate) struct Elect {
    /// What to be the leader of
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// End after a loss instead of campaigning again
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) lease: Lease,
    #[command(flatten)]
    pub(crate) task: Task,
}

#[derive(Debug, Args)]
pub(crate) struct Prefix {
    /// Only names that begin with this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The lock
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) prefix: Prefix,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::parse)]
    pub(crate) every: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Evict {
    /// The lock
    pub(crate) name: String,
    /// The claim, as `lockhouse show` calls it [default: every holder]
    pub(crate) claim: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Why: the holder is told
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cell {
    /// Print a cell's value
    Get {
        /// The cell
        name: String,
    },
    /// Write a cell
    Set {
        /// The cell
        name: String,
        /// The value; `-` reads standard input
        value: OsString,
        /// Write only if the cell is still at this version; 0 when it was never written
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
        /// Write only if no newer fencing token was seen: `--token "$LOCKHOUSE_TOKEN"`
        #[arg(long)]
        token: Option<u64>,
    },
    /// Change a cell by a command: the value on its standard input, the new one on its standard output
    Update {
        /// The cell
        name: String,
        /// Write only if no newer fencing token was seen
        #[arg(long)]
        token: Option<u64>,
        /// The command; it runs again when somebody else wrote in between
        #[arg(last = true, value_name = "COMMAND", required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The engine [default: the one that the other commands use]
    #[arg(value_name = "URL|NAME")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The page of one command [default: the page of lockhouse]
    pub(crate) command: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn permits_are_some_of_many() {
        assert_eq!(permits("1/3"), Ok((1, 3)));
        for text in ["", "3", "0/3", "4/3", "1/", "a/b"] {
            assert!(permits(text).is_err(), "{text}");
        }
    }
}
