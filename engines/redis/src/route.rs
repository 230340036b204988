//! The way to a server, looked up each time a connection is made.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lockhouse_core::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult, cmd};

use crate::address::{Address, Places, invalid};
use crate::error::Fault;

const SENTINEL_PORT: u16 = 26379;
/// The longest that a sentinel is waited for. All are asked at once.
const LONGEST_LOOKUP: Duration = Duration::from_secs(1);
/// What the others get when more than half of the sentinels have answered.
const LATECOMERS: Duration = Duration::from_millis(100);

/// A server that was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) address: Address,
    /// Sentinels number the fail-overs they agree on ("Configuration epochs" in the documentation of Sentinel): who
    /// names a master with a higher number knows of a later one.
    epoch: u64,
}

impl Found {
    /// Whether another server has taken over from one that was found before.
    pub(crate) fn replaces(&self, before: &Self) -> bool {
        self.epoch > before.epoch && self.address.to_string() != before.address.to_string()
    }
}

/// The way to a server.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// It is always there.
    Straight(Address),
    /// It is where the sentinels say that the master is.
    Sentinels(Sentinels),
}

impl Route {
    /// Where the server is at present.
    pub(crate) async fn find(&self) -> Result<Found, Fault> {
        match self {
            Self::Straight(address) => Ok(Found { address: address.clone(), epoch: 0 }),
            Self::Sentinels(sentinels) => sentinels.find().await,
        }
    }

    /// Whether what is found there may turn out to be no master any more.
    pub(crate) fn changes(&self) -> bool {
        matches!(self, Self::Sentinels(_))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Straight(address) => address.fmt(f),
            Self::Sentinels(sentinels) => write!(f, "the master {}", sentinels.master),
        }
    }
}

/// Those who know which server is the master.
#[derive(Debug, Clone)]
pub(crate) struct Sentinels {
    sentinels: Vec<Address>,
    master: String,
    /// Any server of theirs: who we are there.
    server: Address,
}

impl Sentinels {
    /// Reads `//user:password@host:port,host:port/master-name/database`. The credentials are for the servers.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let places = Places::parse(text)?;
        let (master, database) = places.path.split_once('/').unwrap_or((places.path, ""));
        let server = places.servers(database)?.into_iter().next();
        match server.filter(|_| !master.is_empty()) {
            Some(server) => Ok(Self { sentinels: places.strangers(SENTINEL_PORT), master: master.to_owned(), server }),
            None => {
                let help = "write redis+sentinel://host:26379,host:26379/mymaster, with the name in sentinel.conf";
                Err(invalid("the name of the master is missing".into(), help))
            }
        }
    }

    /// What the sentinel says that knows of the latest fail-over, once more than half have answered.
    ///
    /// One that was cut off from the others goes on naming a master that they have deposed. Where few can be asked,
    /// what they say has to do.
    async fn find(&self) -> Result<Found, Fault> {
        let mut asked: FuturesUnordered<_> = self.sentinels.iter().map(|sentinel| self.ask(sentinel)).collect();
        let (mut found, mut fault) = (Vec::new(), None);
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(named) => found.push(named),
                // That they know no such master says more than that another one is away.
                Err(_) if matches!(fault, Some(Fault::NoSuchMaster(_))) => {}
                Err(error) => fault = Some(error),
            }
            if found.len() > self.sentinels.len() / 2 {
                break;
            }
        }
        let late = async {
            while let Some(answer) = asked.next().await {
                found.extend(answer);
            }
        };
        // Their time is over, or they were heard.
        let _ = tokio::time::timeout(LATECOMERS, late).await;
        newest(found).ok_or_else(|| fault.unwrap_or_else(|| self.nobody()))
    }

    async fn ask(&self, sentinel: &Address) -> Result<Found, Fault> {
        let answer = tokio::time::timeout(LONGEST_LOOKUP, self.ask_for_ever(sentinel)).await;
        let (epoch, address) = answer.map_err(|_| self.nobody())?.map_err(Fault::Connecting)?;
        let (host, port) = address.ok_or_else(|| Fault::NoSuchMaster(self.master.clone()))?;
        Ok(Found { address: self.server.elsewhere(&host, port), epoch })
    }

    async fn ask_for_ever(&self, sentinel: &Address) -> RedisResult<(u64, Option<(String, u16)>)> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let mut connection = sentinel.client()?.get_multiplexed_async_connection_with_config(&config).await?;
        // In this order: then the address is at least as new as the epoch.
        let epoch = self.epoch(&mut connection).await.unwrap_or(0);
        let mut command = cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&self.master);
        Ok((epoch, command.query_async(&mut connection).await?))
    }

    /// Nothing when the sentinel does not say: then its word counts least.
    async fn epoch(&self, connection: &mut MultiplexedConnection) -> Option<u64> {
        let mut command = cmd("SENTINEL");
        command.arg("MASTER").arg(&self.master);
        let about: HashMap<String, String> = command.query_async(connection).await.ok()?;
        about.get("config-epoch")?.parse().ok()
    }

    fn nobody(&self) -> Fault {
        Fault::Away(format!("no sentinel of {} answers", self.master))
    }
}

/// The master of the latest fail-over; of one that as many know by two addresses, the one that most name.
fn newest(found: Vec<Found>) -> Option<Found> {
    let mut votes: HashMap<(u64, String), usize> = HashMap::new();
    for named in &found {
        *votes.entry((named.epoch, named.address.to_string())).or_default() += 1;
    }
    found.into_iter().max_by_key(|named| (named.epoch, votes[&(named.epoch, named.address.to_string())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_are_taken_apart() {
        let sentinels = Sentinels::parse("//alice:secret@a,b:7/mymaster/2").unwrap();
        let places: Vec<String> = sentinels.sentinels.iter().map(ToString::to_string).collect();
        assert_eq!((places, sentinels.master.as_str()), (vec!["a:26379".into(), "b:7".into()], "mymaster"));
        assert_eq!(sentinels.server.elsewhere("c", 1).to_string(), "c:1");
        assert!(!format!("{sentinels:?}").contains("secret"));
        let error = Sentinels::parse("//a,b").unwrap_err();
        assert!(error.to_string().contains("name of the master"), "{error}");
    }

    fn found(epoch: u64, host: &str) -> Found {
        Found { address: Address::parse(&format!("//{host}")).unwrap(), epoch }
    }

    #[test]
    fn who_knows_of_the_latest_fail_over_is_believed_and_then_the_many() {
        let names = |found: &[(u64, &str)]| {
            let found = found.iter().map(|(epoch, host)| self::found(*epoch, host)).collect();
            newest(found).map(|found| found.address.to_string())
        };
        assert_eq!(names(&[]), None);
        assert_eq!(names(&[(3, "a"), (3, "a"), (4, "b")]).unwrap(), "b:6379");
        assert_eq!(names(&[(3, "a"), (3, "b"), (3, "b")]).unwrap(), "b:6379");
    }

    #[test]
    fn a_connection_is_left_for_a_later_fail_over_alone() {
        let here = found(3, "a");
        assert!(found(4, "b").replaces(&here));
        assert!(!found(4, "a").replaces(&here), "it is the same server");
        assert!(!found(2, "b").replaces(&here), "who says so knows less than who sent us here");
    }
}
