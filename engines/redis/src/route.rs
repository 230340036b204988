//! The way to a server, looked up each time a connection is made.

use std::fmt;
use std::time::Duration;

use futures_util::future::select_ok;
use lockhouse_core::Result;
use redis::{AsyncConnectionConfig, Value, cmd};

use crate::address::{Address, Places, invalid};
use crate::error::Fault;

const SENTINEL_PORT: u16 = 26379;
/// The longest that a sentinel is waited for. All are asked at once.
const LONGEST_LOOKUP: Duration = Duration::from_secs(1);

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
    pub(crate) async fn find(&self) -> Result<Address, Fault> {
        match self {
            Self::Straight(address) => Ok(address.clone()),
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

    /// What the first sentinel says that knows the master.
    async fn find(&self) -> Result<Address, Fault> {
        let asked = self.sentinels.iter().map(|sentinel| Box::pin(self.ask(sentinel)));
        select_ok(asked).await.map(|(address, _)| address)
    }

    async fn ask(&self, sentinel: &Address) -> Result<Address, Fault> {
        let client = sentinel.client().map_err(Fault::Connecting)?;
        let asked = async {
            let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            cmd("SENTINEL").arg("get-master-addr-by-name").arg(&self.master).query_async::<Value>(&mut connection).await
        };
        let answer = tokio::time::timeout(LONGEST_LOOKUP, asked).await;
        let answer = answer.map_err(|_| Fault::Away(format!("no sentinel of {} answers", self.master)))?;
        match redis::from_redis_value::<Option<(String, u16)>>(answer.map_err(Fault::Connecting)?) {
            Ok(Some((host, port))) => Ok(self.server.elsewhere(&host, port)),
            Ok(None) => Err(Fault::NoSuchMaster(self.master.clone())),
            Err(_) => Err(Fault::Away(format!("{sentinel} is no sentinel"))),
        }
    }
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
}
