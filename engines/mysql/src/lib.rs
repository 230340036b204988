#![doc = include_str!("../README.md")]

mod address;
mod bolt;
mod cells;
mod claims;
mod engine;
mod error;
mod hold;
mod line;
mod pool;
mod schema;
mod settings;
mod statement;
mod store;
mod survey;
mod upkeep;
mod waiters;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Error, Guarantees, Kind, Result, Side};

use crate::address::Address;
use crate::bolt::{Bolted, Grip, Ties};
use crate::engine::Leases;
use crate::error::ENGINE;
pub use crate::hold::Hold;
use crate::pool::Pool;
use crate::schema::Preparing;
use crate::statement::Tables;
use crate::store::{PATIENCE, Store};
use crate::waiters::Waiters;

/// How many connections the caller's side has at most.
const FRONT: usize = 6;
/// How many the keeper has at most.
const KEEPER: usize = 2;
/// How many hold `GET_LOCK`s at most, of those that the caller's side may have: each can have any number of them.
const SESSIONS: usize = 3;
/// How many hold a row each at most, unless something else is said.
const ROWS: usize = 32;
/// How long the server honours a connection that it does not hear of, unless something else is said. A host that
/// vanishes keeps its locks for so long; a network that is gone for shorter costs none.
const DEFAULT_SESSION: Duration = Duration::from_secs(15);
/// The server counts whole seconds.
const SHORTEST_SESSION: Duration = Duration::from_secs(1);
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
    hold: Hold,
    create: bool,
    session: Duration,
    connections: usize,
    /// What both sides of the client know together.
    waiters: Arc<Waiters>,
    /// What holds the client's locks, unless rows do: made by the keeper's side, and used by both.
    ties: Arc<Mutex<Option<Arc<Ties>>>>,
}

impl Mysql {
    /// The server and the database at `//user:password@host:port/database`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        let (address, tables) = (Address::parse(address)?, Tables::new(DEFAULT_TABLES)?);
        Ok(Self {
            address,
            tables: Arc::new(tables),
            hold: Hold::Lease,
            create: true,
            session: DEFAULT_SESSION,
            connections: ROWS,
            waiters: Arc::default(),
            ties: Arc::default(),
        })
    }

    /// Has the tables' names begin with this, instead of `lockhouse`.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for what cannot be part of a table's name.
    pub fn tables(mut self, base: &str) -> Result<Self> {
        self.tables = Arc::new(Tables::new(base)?);
        Ok(self)
    }

    /// How locks are held, instead of by leases.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// How long the server honours a connection that holds locks and is not heard of, instead of 15 seconds.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for less than a second.
    pub fn session(mut self, session: Duration) -> Result<Self> {
        if session < SHORTEST_SESSION {
            let what = format!("a session of {session:?} is too short: the server counts seconds");
            return Err(Error::new(Kind::Invalid, what).help("write ?session=15s").engine(ENGINE));
        }
        self.session = session;
        Ok(self)
    }

    /// How many connections may hold a row each, instead of 32. One more lock than that waits, or is an error.
    ///
    /// # Errors
    /// [`Kind::Invalid`](lockhouse_core::Kind::Invalid) for none at all.
    pub fn connections(mut self, most: usize) -> Result<Self> {
        if most == 0 {
            let what = "locks cannot be held by no connections";
            return Err(Error::new(Kind::Invalid, what).help("write ?connections=32").engine(ENGINE));
        }
        self.connections = most;
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
    pub fn guarantees(&self) -> Guarantees {
        self.hold.guarantees(self.session)
    }

    /// What holds the locks of this client. The keeper's side comes first, and makes it.
    fn ties(&self, side: Side, is_mariadb: bool) -> Result<Arc<Ties>> {
        let mut ties = self.ties.lock().unwrap_or_else(PoisonError::into_inner);
        if side == Side::Keeper {
            let options = self.address.options_that_hold(self.session);
            let grip = Grip { hold: self.hold, tables: Arc::clone(&self.tables), is_mariadb };
            let most = if self.hold == Hold::Row { self.connections } else { SESSIONS };
            let server = self.address.to_string();
            *ties = Some(Arc::new(Ties::new(options, server, self.session, most, grip)));
        }
        ties.clone().ok_or_else(|| Error::new(Kind::Closed, "the keeper's side is connected first").engine(ENGINE))
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
        let most = match side {
            Side::Keeper => KEEPER,
            Side::Front if self.hold == Hold::Session => FRONT - SESSIONS,
            Side::Front => FRONT,
        };
        let pool = Arc::new(Pool::new(self.address.options(), self.address.to_string(), most));
        let preparing = Preparing { tables: &self.tables, hold: self.hold, create: self.create };
        let context = |error: Error| error.engine(ENGINE).during("connect", None);
        let settings = pool.run(PATIENCE, &preparing).await.map_err(context)?;
        let store = Store { pool, tables: Arc::clone(&self.tables) };
        let line = Leases::new(store, Arc::clone(&self.waiters), side == Side::Keeper);
        if self.hold == Hold::Lease {
            return Ok(Arc::new(line));
        }
        let ties = self.ties(side, settings.is_mariadb())?;
        Ok(Arc::new(Bolted::new(line, ties, side == Side::Keeper)))
    }
}
