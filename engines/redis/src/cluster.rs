//! How a client is connected to a cluster: servers that have divided the names among themselves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lockhouse_core::{ClockWatch, Connector, Engine, Error, Guarantees, Result, Side};

use crate::address::{Address, Places, invalid};
use crate::engine;
use crate::error::ENGINE;
use crate::keys::{DEFAULT_PREFIX, Keys};
use crate::nodes::Nodes;

/// Connects to a Redis cluster.
///
/// ```
/// use lockhouse_redis::Cluster;
///
/// let cluster = Cluster::at("//10.0.0.1,10.0.0.2:7000")?.prefix("myapp:")?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cluster {
    seeds: Vec<Address>,
    keys: Keys,
    replicas: u32,
    kept: Arc<KeptByAll>,
}

/// What both sides of a client know together about each server, by its address.
#[derive(Debug, Default)]
pub(crate) struct KeptByAll {
    servers: Mutex<HashMap<String, Arc<ClockWatch>>>,
}

impl KeptByAll {
    pub(crate) fn of(&self, address: &str) -> Arc<ClockWatch> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(servers.entry(address.to_owned()).or_default())
    }
}

impl Cluster {
    /// The cluster of which `//user:password@host:port,host:port` are some servers. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what are no such addresses.
    pub fn at(addresses: &str) -> Result<Self> {
        let places = Places::parse(addresses)?;
        if !matches!(places.path, "" | "0") {
            let what = format!("a cluster has no database {:?}", places.path);
            return Err(invalid(what, "write redis+cluster://host:6379,host:6379"));
        }
        let keys = Keys::new(DEFAULT_PREFIX)?.in_cluster();
        Ok(Self { seeds: places.servers("")?, keys, replicas: 0, kept: Arc::default() })
    }

    /// Puts this before every key, instead of `lockhouse:`.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for a prefix that is too long or has control characters.
    pub fn prefix(mut self, prefix: &str) -> Result<Self> {
        self.keys = Keys::new(prefix)?.in_cluster();
        Ok(self)
    }

    /// As [`Redis::replicas`](crate::Redis::replicas): of each master.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// What a cluster promises: what one server does.
    #[must_use]
    pub fn guarantees() -> Guarantees {
        engine::guarantees()
    }
}

#[async_trait]
impl Connector for Cluster {
    /// Connects one side: to each master when a name of its is asked for, by a connection of its own.
    ///
    /// # Errors
    /// [`Kind::Unreachable`](lockhouse_core::Kind::Unreachable) within two seconds when no server answers;
    /// [`Kind::Unsupported`](lockhouse_core::Kind::Unsupported) when it is no cluster.
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        let nodes = Nodes::new(&self.seeds, self.keys.clone(), self.replicas, Arc::clone(&self.kept));
        nodes.look().await.map_err(|error: Error| error.engine(ENGINE).during("connect", None))?;
        Ok(Arc::new(nodes))
    }
}
