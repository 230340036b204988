//! A majority of independent servers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Error, Guarantees, Kind, Majority, Quorum, Result, Side};

use crate::Redis;
use crate::address::Address;
use crate::keys::{DEFAULT_PREFIX, Keys};
use crate::route::Route;

/// Connects to a majority of independent Redis servers: a lock is held when more than half of them say so.
///
/// Servers that are down do not matter as long as they are fewer than half, also at the start: each is connected when
/// it is there.
///
/// ```
/// use lockhouse_redis::Redlock;
///
/// let redlock = Redlock::at("//10.0.0.1,10.0.0.2,10.0.0.3:6380")?;
/// assert!(Redlock::at("//10.0.0.1,10.0.0.2").is_err());
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Redlock {
    members: Vec<Redis>,
    majority: Majority,
}

impl Redlock {
    /// The servers at `//user:password@host:port,host:port,…/database`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for what are no such addresses, when one is named twice, and unless there are 3, 5 or more of
    /// them, an odd number.
    pub fn at(addresses: &str) -> Result<Self> {
        let invalid = |what: String, help: &str| Err(Error::new(Kind::Invalid, what).help(help).engine("quorum"));
        let addresses = Address::parse_many(addresses)?;
        if addresses.len() < 3 || addresses.len().is_multiple_of(2) {
            let what = format!("a majority of {} servers is no safer than one of fewer", addresses.len());
            return invalid(what, "name 3, 5 or 7 independent servers");
        }
        let mut seen = HashSet::new();
        if let Some(twice) = addresses.iter().find(|address| !seen.insert(address.to_string())) {
            return invalid(format!("{twice} is named twice"), "a server has one vote");
        }
        let keys = Keys::new(DEFAULT_PREFIX)?;
        Ok(Self::of(addresses.into_iter().map(|address| Redis::new(Route::Straight(address), keys.clone())).collect()))
    }

    fn of(members: Vec<Redis>) -> Self {
        let each = members.iter().map(|member| Arc::new(Member(member.clone())) as Arc<dyn Connector>);
        Self { majority: Majority::of(each.collect()), members }
    }

    /// Puts this before every key, instead of `lockhouse:`.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a prefix that is too long or has control characters.
    pub fn prefix(self, prefix: &str) -> Result<Self> {
        let members = self.members.into_iter().map(|member| member.prefix(prefix));
        Ok(Self::of(members.collect::<Result<_>>()?))
    }

    /// What a majority of these servers promises.
    ///
    /// # Panics
    /// Never: there are as many members as a quorum needs.
    #[must_use]
    pub fn guarantees(&self) -> Guarantees {
        let members = self.members.iter().map(|member| Arc::new(member.side()) as Arc<dyn Engine>);
        Quorum::new(members.collect()).expect("as many as a quorum needs").guarantees()
    }
}

#[async_trait]
impl Connector for Redlock {
    /// Connects one side to every member that is there.
    ///
    /// # Errors
    /// What a member says that will not pass by itself, such as [`Kind::Denied`]. Members that are out of reach are
    /// no error here, however many they are: the first request tells.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        self.majority.connect(side).await.map_err(|error| error.engine("quorum").during("connect", None))
    }
}

/// One server of several: it may be away.
#[derive(Debug)]
struct Member(Redis);

/// How long a member is waited for when a client starts: one that hangs costs this much, once.
const LATECOMERS: Duration = Duration::from_millis(100);

#[async_trait]
impl Connector for Member {
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        let server = self.0.side().voting();
        match tokio::time::timeout(LATECOMERS, server.greet()).await {
            Ok(Err(error)) if !matches!(error.kind(), Kind::Unreachable | Kind::TimedOut) => Err(error),
            // Whoever is away is connected by the first request that finds it there.
            _ => Ok(Arc::new(server)),
        }
    }
}
