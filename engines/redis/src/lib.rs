#![doc = include_str!("../README.md")]

mod address;
mod answer;
mod call;
mod cells;
mod checkup;
mod cluster;
mod engine;
mod error;
mod keys;
mod life;
mod link;
mod nodes;
mod redlock;
mod replicas;
mod route;
mod scripts;
mod server;
mod slot;
mod survey;
mod tls;

use std::sync::Arc;

use async_trait::async_trait;
use lockhouse_core::{ClockWatch, Connector, Engine, Error, Guarantees, Result, Side};

use crate::address::Address;
pub use crate::cluster::Cluster;
use crate::error::ENGINE;
pub use crate::keys::DEFAULT_PREFIX;
use crate::keys::Keys;
pub use crate::redlock::Redlock;
use crate::route::{Route, Sentinels};
use crate::server::Server;
pub use crate::tls::Tls;

/// Connects to one Redis server, or to the one that sentinels call the master.
///
/// ```
/// use lockhouse_redis::Redis;
///
/// let redis = Redis::at("//127.0.0.1:6379/0")?.prefix("myapp:")?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Redis {
    route: Route,
    keys: Keys,
    replicas: u32,
    /// What both sides of the client know together.
    kept: Arc<ClockWatch>,
}

impl Redis {
    /// The server at `//user:password@host:port/database`, where everything but the host can be left out. Nothing is
    /// connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        Ok(Self::new(Route::Straight(Address::parse(address)?), Keys::new(DEFAULT_PREFIX)?))
    }

    /// The same, by an encrypted connection.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what is no such address.
    pub fn encrypted(address: &str, tls: Tls) -> Result<Self> {
        let address = Address::parse(address)?.encrypted(tls);
        Ok(Self::new(Route::Straight(address), Keys::new(DEFAULT_PREFIX)?))
    }

    /// The master of this name that the sentinels at `//user:password@host:port,host:port/master-name/database` know,
    /// whichever server that is: a fail-over is followed. The credentials are for the servers, not for the sentinels.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what are no such addresses, or without a name.
    pub fn sentinel(addresses: &str) -> Result<Self> {
        Ok(Self::new(Route::Sentinels(Sentinels::parse(addresses)?), Keys::new(DEFAULT_PREFIX)?))
    }

    fn new(route: Route, keys: Keys) -> Self {
        Self { route, keys, replicas: 0, kept: Arc::default() }
    }

    /// Lets a grant and a renewal count only when so many replicas have acknowledged them. A grant that they do not
    /// acknowledge in time is taken back, and is an error.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Puts this before every key, instead of `lockhouse:`. With an empty prefix a lock's key is its name, as with most
    /// other locks on Redis.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for a prefix that is too long or has control characters.
    pub fn prefix(mut self, prefix: &str) -> Result<Self> {
        self.keys = Keys::new(prefix)?;
        Ok(self)
    }

    /// What one server promises.
    #[must_use]
    pub fn guarantees() -> Guarantees {
        engine::guarantees()
    }

    fn side(&self) -> Server {
        let server = Server::new(self.route.clone(), self.keys.clone(), Arc::clone(&self.kept));
        server.replicas(self.replicas)
    }
}

#[async_trait]
impl Connector for Redis {
    /// Connects one side, each with a connection of its own.
    ///
    /// # Errors
    /// [`Kind::Unreachable`](lockhouse_core::Kind::Unreachable) within two seconds;
    /// [`Kind::Denied`](lockhouse_core::Kind::Denied) when the server refuses our credentials.
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        let context = |error: Error| error.engine(ENGINE).during("connect", None);
        let server = self.side();
        server.greet().await.map_err(context)?;
        Ok(Arc::new(server))
    }
}
