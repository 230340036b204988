//! A majority of independent servers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockhouse_core::{Connector, Engine, Error, Guarantees, Kind, Quorum, Result, Side};

use crate::Redis;
use crate::address::Address;
use crate::keys::{DEFAULT_PREFIX, Keys};
use crate::server::Server;

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
#[derive(Debug, Clone)]
pub struct Redlock {
    members: Vec<Redis>,
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
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = addresses.iter().find(|address| !seen.insert(address.to_string())) {
            return invalid(format!("{twice} is named twice"), "a server has one vote");
        }
        let keys = Keys::new(DEFAULT_PREFIX)?;
        let members = addresses.into_iter().map(|address| Redis::new(address, keys.clone()));
        Ok(Self { members: members.collect::<Result<_>>()? })
    }

    /// What a majority of these servers promises.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when an address cannot be one.
    pub fn guarantees(&self) -> Result<Guarantees> {
        Ok(quorum(&self.sides()?)?.guarantees())
    }

    fn sides(&self) -> Result<Vec<Arc<Server>>> {
        self.members.iter().map(|member| member.side().map(Arc::new)).collect()
    }

    /// Puts this before every key, instead of `lockhouse:`.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a prefix that is too long or has control characters.
    pub fn prefix(mut self, prefix: &str) -> Result<Self> {
        let keys = Keys::new(prefix)?;
        self.members.iter_mut().for_each(|member| member.keys = keys.clone());
        Ok(self)
    }
}

#[async_trait]
impl Connector for Redlock {
    /// Connects one side to every member that is there, and returns a moment after a majority has answered.
    ///
    /// # Errors
    /// [`Kind::Unreachable`] when a majority does not answer within two seconds.
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        let members = self.sides()?;
        greet_majority(&members).await.map_err(|error| error.engine("quorum").during("connect", None))?;
        Ok(Arc::new(quorum(&members)?))
    }
}

fn quorum(members: &[Arc<Server>]) -> Result<Quorum> {
    Quorum::new(members.iter().map(|member| Arc::clone(member) as Arc<dyn Engine>).collect())
}

/// How long the others are waited for when a majority has answered: a hanging one costs this much, once.
const LATECOMERS: Duration = Duration::from_millis(250);

async fn greet_majority(members: &[Arc<Server>]) -> Result<()> {
    let mut greetings: FuturesUnordered<_> = members.iter().map(|member| member.greet()).collect();
    let (mut answered, mut failure) = (0, None);
    while let Some(greeting) = greetings.next().await {
        match greeting {
            Ok(()) => answered += 1,
            Err(error) => failure = Some(error),
        }
        if answered > members.len() / 2 {
            // Those that are just a little slower are connected as well, before the first lock is asked for.
            let others = async { while greetings.next().await.is_some() {} };
            let _ = tokio::time::timeout(LATECOMERS, others).await;
            return Ok(());
        }
    }
    let error = Error::new(Kind::Unreachable, "a majority of the members is out of reach");
    Err(match failure {
        Some(failure) => error.because(failure),
        None => error,
    })
}
