//! What every command needs: the flags that all have, the config file, the engine, and a voice.

use lockhouse::Locks;

use crate::address::Address;
use crate::args::Common;
use crate::complaint::Outcome;
use crate::config::{Config, variable};
use crate::voice::Voice;

/// What every command needs.
pub(crate) struct Here {
    pub(crate) config: Config,
    pub(crate) json: bool,
    pub(crate) voice: Voice,
    engine: Option<String>,
}

impl Here {
    pub(crate) fn new(common: Common) -> Outcome<Self> {
        if common.verbose {
            log_to_stderr();
        }
        let config = Config::read(common.config.as_deref())?;
        let voice = Voice::new(common.json, common.quiet);
        Ok(Self { config, json: common.json, voice, engine: common.engine })
    }

    /// The engine, unless one is given.
    pub(crate) fn address(&self, given: Option<&str>) -> Outcome<Address> {
        Address::choose(given.or(self.engine.as_deref()), &self.config)
    }

    /// Connects to the engine.
    pub(crate) async fn connect(&self) -> Outcome<Locks> {
        self.address(None)?.connect().await
    }
}

/// What the client does, step by step. What matters of it is told in our own words in any case.
fn log_to_stderr() {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_writer(std::io::stderr);
    // Set once: a second call would be a mistake of ours, and would do no harm.
    let _ = log.without_time().with_target(false).with_ansi(false).try_init();
}

/// How this process calls itself in a line: `alice@web-1:4711`. The process makes it different from everybody else's, so
/// that a waiter can find itself.
pub(crate) fn who(owner: Option<&str>) -> String {
    let user = || ["USER", "LOGNAME"].into_iter().find_map(variable)?.into_string().ok();
    let owner = owner.map(str::to_owned).or_else(user);
    let owner = owner.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname();
    format!("{owner}@{}:{}", host.nodename().to_string_lossy(), std::process::id())
}
