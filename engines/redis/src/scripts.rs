//! The scripts, each a file a database administrator can read.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Script, cmd};

use crate::error::{Fault, is_missing_script};
use crate::keys::LineKeys;
use crate::life::Life;
use crate::link::{Heard, Link};

/// A script and its name at the server.
#[derive(Debug)]
pub(crate) struct Prepared {
    source: &'static str,
    hash: String,
}

macro_rules! scripts {
    ($($(#[$about:meta])* $name:ident = $($file:literal)+;)+) => {
        $(
            $(#[$about])*
            pub(crate) static $name: LazyLock<Prepared> =
                LazyLock::new(|| Prepared::new(concat!($(include_str!(concat!("lua/", $file, ".lua"))),+)));
        )+
    };
}

scripts! {
    /// Puts a claim in line.
    CLAIM = "begin" "take" "line" "claim";
    /// Renews leases.
    RENEW = "begin" "line" "renew";
    /// Takes a claim out.
    WITHDRAW = "begin" "drop" "line" "withdraw";
    /// Ends a claim.
    EVICT = "begin" "line" "evict";
    /// Shows a line.
    SURVEY = "begin" "survey";
    /// Writes a cell.
    WRITE = "write";
}

/// The keys and arguments of one call.
#[derive(Debug, Default)]
pub(crate) struct Call {
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

impl Call {
    /// A call without keys and arguments.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The keys of one lock and, where it is not given before, of the newest token.
    pub(crate) fn line(self, line: LineKeys) -> Self {
        self.key(line.holder).key(line.claims).key(line.waiters).key(line.leases)
    }

    pub(crate) fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    pub(crate) fn text(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(crate) fn number(self, argument: impl Into<i128>) -> Self {
        self.text(argument.into().to_string())
    }

    pub(crate) fn flag(self, argument: bool) -> Self {
        self.text(if argument { "1" } else { "0" })
    }
}

impl Prepared {
    fn new(source: &'static str) -> Self {
        Self { source, hash: Script::new(source).get_hash().to_owned() }
    }

    /// Runs the script, which is sent whole when the server does not have it: `EVAL` keeps it there as well.
    pub(crate) async fn run(&self, link: &Link, call: &Call, limit: Duration) -> Result<Heard, Fault> {
        match link.ask(|life| Self::command("EVALSHA", &self.hash, life, call), limit).await {
            Err(Fault::Asking(error)) if is_missing_script(&error) => {
                link.ask(|life| Self::command("EVAL", self.source, life, call), limit).await
            }
            answer => answer,
        }
    }

    /// The process that the connection leads to is known only when there is one: it is put before the arguments here.
    fn command(verb: &str, script: &str, life: &Life, call: &Call) -> Cmd {
        let mut command = cmd(verb);
        command.arg(script).arg(call.keys.len()).arg(&call.keys);
        command.arg(&life.run_id).arg(life.started).arg(&call.arguments);
        command
    }
}
