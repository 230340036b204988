#![doc = include_str!("../README.md")]

mod address;
mod bugs;
mod cells;
mod checkup;
mod claims;
mod engine;
mod ensemble;
mod error;
mod keeping;
mod leases;
mod members;
mod node;
mod paths;
mod quota;
mod reaper;
mod record;
mod server_clock;
mod session;
mod standing;
mod survey;
mod tls;
mod tunnel;
mod waiting;
mod weighing;
mod words;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Error, Guarantees, Result, Side};

use crate::address::{Address, DEFAULT_SESSION, invalid};
use crate::ensemble::Ensemble;
use crate::error::{ENGINE, Fault, explain};
use crate::paths::Paths;
use crate::session::Session;
use crate::tls::Trust;

/// The sessions that can be asked for.
const SESSIONS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Connects to a ZooKeeper ensemble.
///
/// ```
/// use std::time::Duration;
/// use lockhouse_zookeeper::ZooKeeper;
///
/// let zookeeper = ZooKeeper::at("//zk1,zk2,zk3:2181/locks")?.session(Duration::from_secs(10))?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug)]
pub struct ZooKeeper {
    address: Address,
    paths: Paths,
    /// What the keeper's side opened, for the front.
    session: Mutex<Weak<Session>>,
}

impl ZooKeeper {
    /// The servers at `//user:password@host:port,host:port/root`, where everything but one host can be left out.
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        let address = Address::parse(address)?;
        let paths = Paths::new(&address.root)?;
        Ok(Self { address, paths, session: Mutex::default() })
    }

    /// The session's time-out to ask for, instead of 30 s: the longest lease, and how long a crash can block a lock.
    /// The servers grant from 2 to 20 of their ticks.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for less than 100 ms or more than an hour.
    pub fn session(mut self, timeout: Duration) -> Result<Self> {
        if !SESSIONS.contains(&timeout) {
            let what = format!("a session of {timeout:?} makes no sense");
            return Err(invalid(&what, "give one from 2 to 20 ticks of the servers, such as session=10s"));
        }
        self.address.session = timeout;
        Ok(self)
    }

    /// Speaks to the servers through TLS: at their `secureClientPort`. Their certificates must come from one of these
    /// authorities, in PEM form, or from one of the system's where none are given.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) when there is no authority among them.
    pub fn tls(mut self, authorities: Option<&[u8]>) -> Result<Self> {
        self.address.trust = Some(Trust::of(authorities)?);
        Ok(self)
    }

    /// What an ensemble promises to a client that asked for no other session than the default. A server alone promises
    /// the same, but for the loss of members.
    #[must_use]
    pub fn guarantees() -> Guarantees {
        engine::guarantees(DEFAULT_SESSION, 3)
    }

    async fn open(&self) -> Result<Arc<Session>, Fault> {
        Session::open(self.address.clone()).await.map(Arc::new)
    }
}

#[async_trait]
impl Connector for ZooKeeper {
    /// Connects one side: the keeper opens a session, the front shares it.
    ///
    /// # Errors
    /// [`Kind::Unreachable`](lockhouse_core::Kind::Unreachable) within five seconds;
    /// [`Kind::Denied`](lockhouse_core::Kind::Denied) when the servers refuse our credentials.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let shared = self.session.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let session = match (side, shared) {
            (Side::Front, Some(session)) => session,
            _ => {
                let opened = self.open().await.map_err(|fault| explain(fault, &self.address.cluster()));
                opened.map_err(|error: Error| error.engine(ENGINE).during("connect", None))?
            }
        };
        if side == Side::Keeper {
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&session);
        }
        let keeper = side == Side::Keeper;
        Ok(Arc::new(Ensemble::new(session, self.paths.clone(), self.address.clone(), keeper)))
    }
}
