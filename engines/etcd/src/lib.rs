#![doc = include_str!("../README.md")]

mod address;
mod bugs;
mod cells;
mod checkup;
mod claims;
mod engine;
mod error;
mod kept;
mod keys;
mod leases;
mod link;
mod ops;
mod proto;
mod quota;
mod renewals;
mod roll;
mod seats;
mod side;
mod stored;
mod survey;
mod walk;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Error, Guarantees, Result, Side};

use crate::address::Address;
use crate::error::ENGINE;
use crate::kept::Kept;
use crate::keys::{DEFAULT_PREFIX, Keys};
use crate::link::Link;

/// Connects to an etcd cluster.
///
/// ```
/// use lockhouse_etcd::Etcd;
///
/// let etcd = Etcd::at("//etcd-1,etcd-2:2379,etcd-3")?.prefix("myapp/")?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Etcd {
    address: Address,
    keys: Keys,
    /// What both sides of the client know together.
    kept: Arc<Kept>,
}

impl Etcd {
    /// The members at `//user:password@host:port,host:port`, where everything but the hosts can be left out. Nothing is
    /// connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        Ok(Self { address: Address::parse(address)?, keys: Keys::new(DEFAULT_PREFIX)?, kept: Arc::default() })
    }

    /// Puts this before every key, instead of `lockhouse/`. With an empty prefix a lock is where `etcdctl lock` has it.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for a prefix that is too long or has control characters.
    pub fn prefix(mut self, prefix: &str) -> Result<Self> {
        self.keys = Keys::new(prefix)?;
        Ok(self)
    }

    /// Speaks to the members through TLS. Their certificates must come from one of these authorities, in PEM form, or
    /// from one of the system's where none are given.
    #[must_use]
    pub fn tls(mut self, authorities: Option<&[u8]>) -> Self {
        self.address.tls = true;
        self.address.authority = authorities.map(<[u8]>::to_vec);
        self
    }

    /// Shows the members this certificate, whose key we have, both in PEM form: for members that ask for one
    /// (`--client-cert-auth`). It is for TLS alone.
    #[must_use]
    pub fn identity(mut self, certificate: &[u8], key: &[u8]) -> Self {
        self.address.identity = Some((certificate.to_vec(), key.to_vec()));
        self
    }

    /// What a cluster of so many voting members promises.
    #[must_use]
    pub fn guarantees(voters: usize) -> Guarantees {
        engine::guarantees(voters)
    }
}

#[async_trait]
impl Connector for Etcd {
    /// Connects one side, each with connections of its own.
    ///
    /// # Errors
    /// [`Kind::Unreachable`](lockhouse_core::Kind::Unreachable) within three seconds;
    /// [`Kind::Denied`](lockhouse_core::Kind::Denied) when etcd refuses our credentials.
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        let context = |error: Error| error.engine(ENGINE).during("connect", None);
        let link = Link::new(self.address.clone()).map_err(context)?;
        let side = side::Side::greet(link, self.keys.clone(), Arc::clone(&self.kept)).await.map_err(context)?;
        Ok(Arc::new(side))
    }
}
