#![doc = include_str!("../README.md")]

mod address;
mod answer;
mod cells;
mod drift;
mod engine;
mod error;
mod kept;
mod keys;
mod life;
mod link;
mod scripts;
mod server;
mod survey;
mod waiters;

use std::sync::Arc;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Error, Guarantees, Result, Side};

use crate::address::Address;
use crate::error::ENGINE;
use crate::kept::Kept;
use crate::keys::{DEFAULT_PREFIX, Keys};
use crate::server::Server;

/// Connects to one Redis server.
///
/// ```
/// use lockhouse_redis::Redis;
///
/// let redis = Redis::at("//127.0.0.1:6379/0")?.prefix("myapp:")?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Redis {
    address: Address,
    keys: Keys,
    /// What both sides of the client know together.
    kept: Arc<Kept>,
}

impl Redis {
    /// The server at `//user:password@host:port/database`, where everything but the host can be left out. Nothing is
    /// connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        Self::new(Address::parse(address)?, Keys::new(DEFAULT_PREFIX)?)
    }

    fn new(address: Address, keys: Keys) -> Result<Self> {
        Ok(Self { address, keys, kept: Arc::default() })
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

    fn side(&self) -> Result<Server> {
        Server::new(&self.address, self.keys.clone(), Arc::clone(&self.kept))
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
        let server = self.side().map_err(context)?;
        server.greet().await.map_err(context)?;
        Ok(Arc::new(server))
    }
}
