#![doc = include_str!("../README.md")]

mod address;
mod bolt;
mod bolted;
mod bolts;
mod cells;
mod checkup;
mod chores;
mod dial;
mod engine;
mod error;
mod gate;
mod hold;
mod holding;
mod links;
mod listener;
mod pool;
mod pooler;
mod row;
mod said;
mod schema;
mod server;
mod session;
mod survey;
mod tables;
mod tls;
mod way;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{ClockWatch, Connector, Engine, Error, Guarantees, Kind, Result, Side};

use crate::address::Address;
use crate::bolted::Bolted;
use crate::bolts::Bolts;
use crate::dial::Dial;
use crate::error::ENGINE;
pub use crate::hold::Hold;
use crate::hold::{DEFAULT_ROWS, DEFAULT_SILENCE, LEAST_SILENCE, Silence};
use crate::links::Links;
use crate::row::Rows;
use crate::server::{Parts, Server};
use crate::session::Session;
use crate::tables::Tables;
pub use crate::tls::Tls;
use crate::way::Way;

/// So many connections wait for other programs at a time, where locks are held by sessions. The others poll.
const WAITING: usize = 1;

/// Connects to one PostgreSQL server.
///
/// ```
/// use lockhouse_postgres::Postgres;
///
/// let postgres = Postgres::at("//alice:secret@127.0.0.1:5432/shop")?.table("app.locks")?.create(false);
/// assert!(postgres.ddl().contains("CREATE TABLE IF NOT EXISTS app.locks_claims"));
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Postgres {
    address: Address,
    dial: Dial,
    tables: Tables,
    create: bool,
    hold: Hold,
    silence: Silence,
    rows: usize,
    /// The keeper's, for the front to share.
    bolts: Arc<Mutex<Weak<Bolts>>>,
    /// What both sides of the client know together.
    kept: Arc<ClockWatch>,
}

impl Postgres {
    /// The server at `//user:password@host:port/database`, where everything but the host can be left out. Nothing is
    /// connected yet.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for what is no such address.
    pub fn at(address: &str) -> Result<Self> {
        let address = Address::parse(address)?;
        Ok(Self {
            dial: Dial::to(&address, None)?,
            address,
            tables: Tables::default(),
            create: true,
            hold: Hold::Lease,
            silence: Silence(DEFAULT_SILENCE),
            rows: DEFAULT_ROWS,
            bolts: Arc::default(),
            kept: Arc::default(),
        })
    }

    /// Encrypts every connection, and makes sure of the server: they are not encrypted unless said.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when a certificate is none.
    pub fn encrypted(mut self, tls: &Tls) -> Result<Self> {
        self.dial = Dial::to(&self.address, Some(tls))?;
        Ok(self)
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

    /// How locks are held: by their leases alone unless said.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// When the server ends a connection that holds locks and is silent, as that of a machine that vanished: after 20 s
    /// unless said. No lease is longer than three quarters of it.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for less than two seconds, or more than a day.
    pub fn silence(mut self, silence: Duration) -> Result<Self> {
        if !(LEAST_SILENCE..=Duration::from_secs(86_400)).contains(&silence) {
            let what = format!("a connection cannot be ended after {silence:?} of silence");
            return Err(Error::new(Kind::Invalid, what).help("give it from 2s to 24h, such as 20s").engine(ENGINE));
        }
        self.silence = Silence(silence);
        Ok(self)
    }

    /// How many locks may be held at a time by rows, each with a connection of its own: 16 unless said.
    #[must_use]
    pub fn rows(mut self, rows: usize) -> Self {
        self.rows = rows;
        self
    }

    /// The statements that create everything, for a database in which the program itself may not. What is there already
    /// is left as it is, and tables of an older version are changed.
    #[must_use]
    pub fn ddl(&self) -> String {
        schema::ddl(&self.tables)
    }

    /// What one server promises.
    #[must_use]
    pub fn guarantees(&self) -> Guarantees {
        engine::guarantees(self.hold, self.silence)
    }

    fn side(&self, side: Side) -> Server {
        Server::new(Parts {
            side,
            hold: self.hold,
            dial: self.dial.clone(),
            channel: format!("lockhouse_{:016x}", rand::random::<u64>()),
            tables: self.tables.clone(),
            kept: Arc::clone(&self.kept),
            name: self.address.to_string(),
        })
    }
}

impl Postgres {
    /// What holds locks: made by the keeper, on its runtime, and shared by the front.
    fn bolts(&self, side: Side) -> Arc<Bolts> {
        let mut kept = self.bolts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bolts) = kept.upgrade().filter(|_| side == Side::Front) {
            return bolts;
        }
        let own = if self.hold == Hold::Row { self.rows } else { WAITING };
        let links = Links::new(self.dial.clone(), self.silence, own);
        let way: Arc<dyn Way> = match self.hold {
            Hold::Row => Arc::new(Rows::new(links, &self.tables)),
            Hold::Session | Hold::Lease => Arc::new(Session::new(links, &self.tables)),
        };
        let bolts = Arc::new(Bolts::new(way));
        *kept = Arc::downgrade(&bolts);
        bolts
    }
}

#[async_trait]
impl Connector for Postgres {
    /// Connects one side, each with connections of its own. The first one creates what is missing.
    ///
    /// # Errors
    /// [`Kind::Unreachable`] within two seconds;
    /// [`Kind::Denied`] when the server refuses our credentials, or tables are missing
    /// that may not be created; [`Kind::Unsupported`] for a replica, and behind a pooler
    /// in transaction mode.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let server = self.side(side);
        let prepared = schema::prepare(&server.pool, &self.tables, self.create).await;
        prepared.map_err(|fault| server.explain(fault).during("connect", None))?;
        if self.hold == Hold::Lease {
            return Ok(Arc::new(server));
        }
        let (bolts, hold, silence) = (self.bolts(side), self.hold, self.silence);
        Ok(Arc::new(Bolted { line: server, bolts, hold, silence }))
    }
}
