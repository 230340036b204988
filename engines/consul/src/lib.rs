#![doc = include_str!("../README.md")]

mod address;
mod api;
mod behavior;
mod bugs;
mod cells;
mod checkup;
mod claims;
mod engine;
mod error;
mod http;
mod kept;
mod keys;
mod leaving;
mod link;
mod node;
mod reaper;
mod renewals;
mod servers;
mod session;
mod side;
mod store;
mod stored;
mod survey;
mod taking;
mod waiting;
mod walk;
mod watches;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Error, Guarantees, Kind, Result, Side};

use crate::address::Address;
pub use crate::behavior::Behavior;
use crate::error::ENGINE;
use crate::kept::Kept;
use crate::keys::{DEFAULT_PREFIX, Keys};
use crate::link::Link;
use crate::session::{Session, Terms};
use crate::side::Topology;
use crate::store::Store;

/// What a client that says nothing else asks for: what `consul lock` asks for. The longest lease is three quarters of
/// it, and a crash can block a lock for twice as long.
const DEFAULT_SESSION: Duration = Duration::from_secs(15);
/// A holder stops believing before its session can end, so nobody has to be kept waiting after that.
const DEFAULT_LOCK_DELAY: Duration = Duration::ZERO;
/// The sessions that can be asked for: Consul has none above a day. What is the least is for the servers to say.
const SESSIONS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1500)..=Duration::from_secs(86_400);
/// Consul takes no longer pause.
const LONGEST_LOCK_DELAY: Duration = Duration::from_secs(60);

/// Connects to Consul.
///
/// ```
/// use std::time::Duration;
/// use lockhouse_consul::Consul;
///
/// let consul = Consul::at("//127.0.0.1:8500")?.prefix("myapp/")?.session(Duration::from_secs(30))?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Consul {
    address: Address,
    keys: Keys,
    terms: Terms,
    /// What the keeper's side began, for the front.
    shared: Mutex<(Weak<Session>, Weak<Kept>)>,
}

impl Consul {
    /// The agents at `//:token@host:port,host:port`, where everything but one host can be left out. Nothing is
    /// connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        let behavior = Behavior::default();
        let terms = Terms { ttl: DEFAULT_SESSION, lock_delay: DEFAULT_LOCK_DELAY, behavior, node: None };
        Ok(Self {
            address: Address::parse(address)?,
            keys: Keys::new(DEFAULT_PREFIX)?,
            terms,
            shared: Mutex::default(),
        })
    }

    /// Puts this before every key, instead of `lockhouse/`. With an empty prefix a lock is where `consul lock` has it.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a prefix that is too long or cannot begin a key.
    pub fn prefix(mut self, prefix: &str) -> Result<Self> {
        self.keys = Keys::new(prefix)?;
        Ok(self)
    }

    /// Shows this ACL token with every request.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.address.token = Some(token.to_owned());
        self
    }

    /// Keeps the locks in this datacenter, instead of that of the agents.
    #[must_use]
    pub fn datacenter(mut self, datacenter: &str) -> Self {
        self.address.datacenter = Some(datacenter.to_owned());
        self
    }

    /// The session's TTL to ask for, instead of 15 s. The longest lease is three quarters of it.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for less than 1.5 s or more than a day. Servers may have a larger least: 10 s by default.
    pub fn session(mut self, ttl: Duration) -> Result<Self> {
        if !SESSIONS.contains(&ttl) {
            let what = format!("a session of {ttl:?} makes no sense");
            return Err(Error::new(Kind::Invalid, what).help("write something like session=15s").engine(ENGINE));
        }
        self.terms.ttl = ttl;
        Ok(self)
    }

    /// The node of the catalog that the session belongs to, instead of that of the agent which makes it: a session ends
    /// when its node is taken out of the catalog.
    #[must_use]
    pub fn node(mut self, node: &str) -> Self {
        self.terms.node = Some(node.to_owned());
        self
    }

    /// How long nobody may have a lock after its holder's session has ended, instead of not at all.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for more than a minute, which is Consul's own limit.
    pub fn lock_delay(mut self, delay: Duration) -> Result<Self> {
        if delay > LONGEST_LOCK_DELAY {
            let what = format!("a lock-delay of {delay:?} is more than Consul's longest, a minute");
            return Err(Error::new(Kind::Invalid, what).help("write something like lock-delay=1s").engine(ENGINE));
        }
        self.terms.lock_delay = delay;
        Ok(self)
    }

    /// What becomes of the client's keys when its session ends without it, instead of being deleted.
    #[must_use]
    pub fn behavior(mut self, behavior: Behavior) -> Self {
        self.terms.behavior = behavior;
        self
    }

    /// Speaks to the agents through TLS. Their certificates must come from one of these authorities, in PEM form, or
    /// from one of the system's where none are given.
    #[must_use]
    pub fn tls(mut self, authorities: Option<&[u8]>) -> Self {
        self.address.tls = true;
        self.address.authority = authorities.map(<[u8]>::to_vec);
        self
    }

    /// What so many servers promise to a client that asks for these things.
    #[must_use]
    pub fn guarantees(&self, servers: usize) -> Guarantees {
        engine::guarantees(&self.terms, Topology { servers, forgetful: false })
    }

    fn store(&self) -> Result<Store> {
        Ok(Store { link: Arc::new(Link::new(&self.address)?), keys: self.keys.clone() })
    }

    async fn open(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let known = {
            let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.0.upgrade().zip(shared.1.upgrade()).filter(|_| side == Side::Front)
        };
        let (session, kept) = match known {
            Some(known) => known,
            None => {
                let (store, kept) = (self.store()?, Arc::new(Kept::default()));
                let address = self.address.to_string();
                let begun = Session::begin(store, self.terms.clone(), Arc::clone(&kept)).await;
                (Arc::new(begun.map_err(|fault| error::explain(fault, &address))?), kept)
            }
        };
        if side == Side::Keeper {
            let shared = (Arc::downgrade(&session), Arc::downgrade(&kept));
            *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = shared;
        }
        let side = side::Side::greet(self.store()?, session, kept, side == Side::Keeper).await?;
        Ok(Arc::new(side))
    }
}

#[async_trait]
impl Connector for Consul {
    /// Connects one side, each with connections of its own: the keeper begins a session, the front shares it.
    ///
    /// # Errors
    /// [`Kind::Unreachable`] within six seconds; [`Kind::Denied`] when Consul refuses our token.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        self.open(side).await.map_err(|error| error.engine(ENGINE).during("connect", None))
    }
}
