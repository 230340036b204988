#![doc = include_str!("../README.md")]

mod address;
mod cells;
mod checkup;
mod chores;
mod engine;
mod error;
mod gate;
mod listener;
mod pool;
mod schema;
mod server;
mod survey;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use async_trait::async_trait;
use lockhouse_core::{ClockWatch, Connector, Engine, Error, Guarantees, Kind, Result, Side};

use crate::address::Address;
use crate::error::ENGINE;
use crate::server::{Parts, Server};
use crate::tables::Tables;

/// Connects to one PostgreSQL server.
///
/// ```
/// use lockhouse_postgres::Postgres;
///
/// let postgres = Postgres::at("//alice:secret@127.0.0.1:5432/shop")?.table("app.locks")?.create(false);
/// assert!(postgres.ddl().contains("CREATE TABLE app.locks_claims"));
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Postgres {
    address: Address,
    tables: Tables,
    create: bool,
    /// What both sides of the client know together.
    kept: Arc<ClockWatch>,
    /// The process of the server that answers the keeper; 0 when it is not known.
    backend: Arc<AtomicI32>,
}

impl Postgres {
    /// The server at `//user:password@host:port/database`, where everything but the host can be left out. Nothing is
    /// connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        let address = Address::parse(address)?;
        Ok(Self { address, tables: Tables::default(), create: true, kept: Arc::default(), backend: Arc::default() })
    }

    /// What the names of all tables and functions begin with, instead of `lockhouse`; with a schema and a dot before
    /// it, if they are to be in another one than `public`.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for what has other characters than small letters, digits and
    /// underscores, or is too long.
    pub fn table(mut self, table: &str) -> Result<Self> {
        self.tables = Tables::parse(table)?;
        Ok(self)
    }

    /// Whether tables and functions that are not there are created, which they are unless said.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// The statements that create everything, for a database in which the program itself may not.
    #[must_use]
    pub fn ddl(&self) -> String {
        schema::ddl(&self.tables)
    }

    /// What one server promises.
    #[must_use]
    pub fn guarantees() -> Guarantees {
        engine::guarantees()
    }

    /// The keeper has a connection open. If the same process of the server answers the front, somebody between us and
    /// the server lends its connections for single transactions.
    fn check_pooler(&self, side: Side, backend: i32) -> Result<()> {
        if side == Side::Keeper {
            self.backend.store(backend, Ordering::Release);
        } else if self.backend.load(Ordering::Acquire) == backend {
            let what = format!("{} is a pooler that lends a connection for one transaction", self.address);
            let help = "give the address of the server itself, or of a pool in session mode";
            return Err(Error::new(Kind::Unsupported, what).help(help).engine(ENGINE).during("connect", None));
        }
        Ok(())
    }

    fn side(&self, side: Side) -> Server {
        Server::new(Parts {
            side,
            config: self.address.config(),
            channel: format!("lockhouse_{:016x}", rand::random::<u64>()),
            tables: self.tables.clone(),
            kept: Arc::clone(&self.kept),
            name: self.address.to_string(),
        })
    }
}

#[async_trait]
impl Connector for Postgres {
    /// Connects one side, each with connections of its own. The first one creates what is missing.
    ///
    /// # Errors
    /// [`Kind::Unreachable`] within two seconds;
    /// [`Kind::Denied`] when the server refuses our credentials, or tables are missing
    /// that may not be created; [`Kind::Unsupported`] behind a pooler in transaction
    /// mode.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let server = self.side(side);
        let prepared = schema::prepare(&server.pool, &self.tables, self.create).await;
        let backend = prepared.map_err(|fault| server.explain(fault).during("connect", None))?;
        self.check_pooler(side, backend)?;
        Ok(Arc::new(server))
    }
}
