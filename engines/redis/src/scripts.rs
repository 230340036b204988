//! The scripts, each a file a database administrator can read.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use crate::call::Call;
use crate::error::{Fault, is_missing_script};
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

impl Prepared {
    fn new(source: &'static str) -> Self {
        Self { source, hash: Script::new(source).get_hash().to_owned() }
    }

    /// Runs the script, which is sent whole when the server does not have it: `EVAL` keeps it there as well.
    pub(crate) async fn run(&self, link: &Link, call: &Call, limit: Duration) -> Result<Heard, Fault> {
        match link.ask(|life| call.command("EVALSHA", &self.hash, life), limit).await {
            Err(Fault::Asking(error)) if is_missing_script(&error) => {
                link.ask(|life| call.command("EVAL", self.source, life), limit).await
            }
            answer => answer,
        }
    }
}
