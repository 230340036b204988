#![doc = include_str!("../README.md")]

mod address;
mod cells;
mod claims;
mod engine;
mod error;
mod line;
mod pool;
mod schema;
mod settings;
mod statement;
mod survey;
mod upkeep;
mod waiters;

use std::sync::Arc;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Error, Guarantees, Result, Side};

use crate::address::Address;
use crate::engine::{Leases, PATIENCE};
use crate::error::ENGINE;
use crate::pool::Pool;
use crate::schema::Preparing;
use crate::statement::Tables;
use crate::waiters::Waiters;

/// How many connections the caller's side has at most.
const FRONT: usize = 6;
/// How many the keeper has at most.
const KEEPER: usize = 2;
/// What the tables' names begin with unless something else is said.
const DEFAULT_TABLES: &str = "lockhouse";

/// Connects to a MySQL or MariaDB server.
///
/// ```
/// use lockhouse_mysql::Mysql;
///
/// let mysql = Mysql::at("//alice:secret@127.0.0.1:3306/shop")?.tables("shop_locks")?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mysql {
    address: Address,
    tables: Arc<Tables>,
    create: bool,
    /// What both sides of the client know together.
    waiters: Arc<Waiters>,
}

impl Mysql {
    /// The server and the database at `//user:password@host:port/database`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        let (address, tables) = (Address::parse(address)?, Tables::new(DEFAULT_TABLES)?);
        Ok(Self { address, tables: Arc::new(tables), create: true, waiters: Arc::default() })
    }

    /// Has the tables' names begin with this, instead of `lockhouse`.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what cannot be part of a table's name.
    pub fn tables(mut self, base: &str) -> Result<Self> {
        self.tables = Arc::new(Tables::new(base)?);
        Ok(self)
    }

    /// Whether tables that are missing are created, as they are unless said otherwise.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// What it promises.
    #[must_use]
    pub fn guarantees() -> Guarantees {
        engine::guarantees()
    }
}

#[async_trait]
impl Connector for Mysql {
    /// Connects one side, each with connections of its own, and creates the tables if they are not there.
    ///
    /// # Errors
    /// [`Kind::Unreachable`](lockhouse_core::Kind::Unreachable) or
    /// [`Kind::TimedOut`](lockhouse_core::Kind::TimedOut) within four seconds;
    /// [`Kind::Denied`](lockhouse_core::Kind::Denied) when the server refuses our credentials or has not given us the
    /// rights we need; [`Kind::Corrupt`](lockhouse_core::Kind::Corrupt) for tables of a newer version.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let most = if side == Side::Keeper { KEEPER } else { FRONT };
        let pool = Arc::new(Pool::new(self.address.options(), self.address.to_string(), most));
        let preparing = Preparing { tables: &self.tables, create: self.create };
        let context = |error: Error| error.engine(ENGINE).during("connect", None);
        pool.run(PATIENCE, &preparing).await.map_err(context)?;
        let (tables, waiters) = (Arc::clone(&self.tables), Arc::clone(&self.waiters));
        Ok(Arc::new(Leases::new(pool, tables, waiters, side == Side::Keeper)))
    }
}
