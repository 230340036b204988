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
mod sole;
mod statement;
mod store;
mod survey;
mod tls;
mod unwritten;
mod upkeep;
mod waiters;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{ClockWatch, Connector, Engine, Error, Guarantees, Kind, Result, Side};

use crate::address::Address;
use crate::bolt::{Bolted, Grip, Ties};
use crate::engine::Leases;
use crate::error::ENGINE;
pub use crate::hold::Hold;
use crate::pool::Pool;
use crate::schema::Preparing;
use crate::statement::Tables;
use crate::store::{PATIENCE, Store};
pub use crate::tls::Tls;
use crate::unwritten::Unwritten;
use crate::waiters::Waiters;

/// How many connections the caller's side has at most.
const FRONT: usize = 6;
/// How many the keeper has at most.
const KEEPER: usize = 2;
/// How many hold `GET_LOCK`s at most, of those that the caller's side may have: each can have any number of them.
const SESSIONS: usize = 3;
/// How many hold a row each at most, unless something else is said.
const DEFAULT_ROWS: usize = 16;
/// How long the server honours a connection that it does not hear of, unless something else is said: a host that
/// vanishes keeps its locks for so long, which is less than 25 s.
const DEFAULT_SILENCE: Duration = Duration::from_secs(20);
/// The shortest and the longest silence: the server counts whole seconds, and a slow answer is no silence.
const SILENCE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(86_400));
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
    silence: Duration,
    rows: usize,
    /// What both sides of the client know together.
    waiters: Arc<Waiters>,
    unwritten: Arc<Unwritten>,
    clock: Arc<ClockWatch>,
    /// What holds the client's locks, unless rows do: made by the keeper's side, and used by both.
    ties: Arc<Mutex<Weak<Ties>>>,
}

impl Mysql {
    /// The server and the database at `//user:password@host:port/database`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        let (address, tables) = (Address::parse(address)?, Tables::new(DEFAULT_TABLES)?);
        Ok(Self {
            address,
            tables: Arc::new(tables),
            hold: Hold::Lease,
            create: true,
            silence: DEFAULT_SILENCE,
            rows: DEFAULT_ROWS,
            waiters: Arc::default(),
            unwritten: Arc::default(),
            clock: Arc::default(),
            ties: Arc::default(),
        })
    }

    /// Has the tables' names begin with this, instead of `lockhouse`.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for what cannot be part of a table's name.
    pub fn tables(mut self, base: &str) -> Result<Self> {
        (self.tables, self.unwritten) = (Arc::new(Tables::new(base)?), Arc::default());
        Ok(self)
    }

    /// How locks are held, instead of by leases.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// How long the server honours a connection that holds locks and is not heard of, instead of 20 seconds. No lease
    /// is longer.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for less than two seconds or more than a day.
    pub fn silence(mut self, silence: Duration) -> Result<Self> {
        let (least, most) = SILENCE;
        if silence < least || silence > most {
            let what = format!("a connection cannot be ended after {silence:?} of silence");
            return Err(Error::new(Kind::Invalid, what)
                .help("write from 2s to 24h, such as silence=20s")
                .engine(ENGINE));
        }
        self.silence = silence;
        Ok(self)
    }

    /// How many locks may be held by rows at a time, each with a connection of its own, instead of 16. One more is an
    /// error.
    #[must_use]
    pub fn rows(mut self, most: usize) -> Self {
        self.rows = most;
        self
    }

    /// Encrypts every connection, and believes no other server than this says.
    #[must_use]
    pub fn encrypted(mut self, tls: &Tls) -> Self {
        self.address.encrypt(tls);
        self
    }

    /// The statements that create the tables, for somebody who may.
    #[must_use]
    pub fn ddl(&self) -> String {
        // What every server takes: whether this one is replicated is not known.
        schema::statements(&self.tables, true)
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
        self.hold.guarantees(self.silence)
    }

    /// What holds the locks of this client. The keeper's side comes first, and makes it.
    fn ties(&self, side: Side, is_mariadb: bool) -> Result<Arc<Ties>> {
        let mut shared = self.ties.lock().unwrap_or_else(PoisonError::into_inner);
        if side == Side::Keeper {
            let options = self.address.options_that_hold(self.silence);
            let grip = Grip { hold: self.hold, tables: Arc::clone(&self.tables), is_mariadb };
            let most = if self.hold == Hold::Row { self.rows } else { SESSIONS };
            let server = self.address.to_string();
            let ties = Arc::new(Ties::new(options, server, self.silence, most, grip));
            *shared = Arc::downgrade(&ties);
            return Ok(ties);
        }
        shared.upgrade().ok_or_else(|| Error::new(Kind::Closed, "the keeper's side is not there").engine(ENGINE))
    }
}

#[async_trait]
impl Connector for Mysql {
    /// Connects one side, each with connections of its own, and creates the tables if they are not there.
    ///
    /// # Errors
    /// [`Kind::Unreachable`] or
    /// [`Kind::TimedOut`] within four seconds;
    /// [`Kind::Denied`] when the server refuses our credentials or has not given us the
    /// rights we need; [`Kind::Corrupt`] for tables of a newer version.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let most = match side {
            Side::Keeper => KEEPER,
            Side::Front if self.hold == Hold::Session => FRONT - SESSIONS,
            Side::Front => FRONT,
        };
        let pool = Arc::new(Pool::new(self.address.options(), self.address.to_string(), most, Arc::clone(&self.clock)));
        let preparing = Preparing { tables: &self.tables, hold: self.hold, create: self.create };
        let context = |error: Error| error.engine(ENGINE).during("connect", None);
        let prepared = pool.run(PATIENCE, &preparing).await.map_err(context)?;
        self.unwritten.has_memory(prepared.has_memory);
        let store = Store { pool, tables: Arc::clone(&self.tables), unwritten: Arc::clone(&self.unwritten) };
        let line = Leases::new(store, Arc::clone(&self.waiters), side == Side::Keeper);
        if self.hold == Hold::Lease {
            return Ok(Arc::new(line));
        }
        let ties = self.ties(side, prepared.is_mariadb)?;
        Ok(Arc::new(Bolted::new(line, ties, side == Side::Keeper)))
    }
}
