//! What every command needs: the flags that all have, the config file, the engine, and a voice.

use std::cell::RefCell;
use std::time::Duration;

use lockhouse::Locks;

use crate::address::Address;
use crate::args::Common;
use crate::complaint::Outcome;
use crate::config::{Config, variable};
use crate::voice::Voice;

/// How long the engine may take to confirm that nothing of ours is left.
const LEAVING: Duration = Duration::from_secs(2);

/// What every command needs.
pub(crate) struct Here {
    pub(crate) config: Config,
    pub(crate) json: bool,
    pub(crate) voice: Voice,
    engine: Option<String>,
    /// The client, once it is connected.
    locks: RefCell<Option<Locks>>,
}

impl Here {
    pub(crate) fn new(common: Common) -> Outcome<Self> {
        if common.verbose {
            log_to_stderr();
        }
        let config = Config::read(common.config.as_deref())?;
        let voice = Voice::new(common.json, common.quiet);
        Ok(Self { config, json: common.json, voice, engine: common.engine, locks: RefCell::default() })
    }

    /// The engine, unless one is given.
    pub(crate) fn address(&self, given: Option<&str>) -> Outcome<Address> {
        Address::choose(given.or(self.engine.as_deref()), &self.config)
    }

    /// Connects to the engine.
    pub(crate) async fn connect(&self) -> Outcome<Locks> {
        self.connect_to(&self.address(None)?).await
    }

    /// Connects to this engine.
    pub(crate) async fn connect_to(&self, address: &Address) -> Outcome<Locks> {
        let locks = address.connect().await?;
        self.locks.replace(Some(locks.clone()));
        Ok(locks)
    }

    /// Gives back what is left and tidies up at the engine. What it does not confirm in time ends with its lease.
    pub(crate) async fn leave(&self) {
        let locks = self.locks.take();
        if let Some(locks) = locks {
            let _ = locks.close(LEAVING).await;
        }
    }
}

/// What the client does, step by step. What matters of it is told in our own words in any case.
fn log_to_stderr() {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_writer(std::io::stderr);
    // Set once: a second call would be a mistake of ours, and would do no harm.
    let _ = log.without_time().with_target(false).with_ansi(false).try_init();
}

/// How this process calls itself in a line: `alice@web-1:4711`. The process makes it different from everybody else's,
/// so that a waiter can find itself.
pub(crate) fn who(owner: Option<&str>) -> String {
    let user = || ["USER", "LOGNAME"].into_iter().find_map(variable)?.into_string().ok();
    let owner = owner.map(str::to_owned).or_else(user);
    let owner = owner.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname();
    format!("{owner}@{}:{}", host.nodename().to_string_lossy(), std::process::id())
}
