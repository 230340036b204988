//! A few connections to a server, each with one request at a time.
//!
//! Every request is one statement that commits by itself. A request that is dropped in the middle closes its connection,
//! and the server rolls back or commits: no transaction stays open, and no answer is taken for another's.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};

use crate::address::LONGEST_CONNECT;
use crate::error::{Fault, breaks_connection};
use crate::tables::sql;

/// A value of a statement, with its type: the server is not asked for it.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// One connection. Dropped, it is closed at once.
pub(crate) struct Link {
    pub(crate) client: Client,
    /// Carries what is sent and received. Ends when it is dropped.
    _driver: JoinSet<()>,
}

impl Link {
    /// Connects, and makes the settings of ours.
    pub(crate) async fn connect(config: &Config) -> Result<Self, Fault> {
        let connecting = async {
            let (client, connection) = config.connect(NoTls).await?;
            let mut driver = JoinSet::new();
            driver.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to PostgreSQL broke");
                }
            });
            client.batch_execute(sql!("ask/settings")).await?;
            Ok(Self { client, _driver: driver })
        };
        let connected = timeout(LONGEST_CONNECT, connecting).await;
        connected.map_err(|_| Fault::NoConnection(LONGEST_CONNECT))?.map_err(Fault::Connecting)
    }
}

/// A few connections to a server.
pub(crate) struct Pool {
    config: Config,
    places: Semaphore,
    /// Those that nobody uses at present, the last used one last.
    idle: Mutex<Vec<Link>>,
}

/// A connection that somebody uses. Closed when it is dropped, unless it is given back.
struct Borrowed<'a> {
    pool: &'a Pool,
    link: Link,
    _place: SemaphorePermit<'a>,
}

impl Pool {
    /// At most so many connections to a server. None is made yet.
    pub(crate) fn new(config: Config, most: usize) -> Self {
        Self { config, places: Semaphore::new(most), idle: Mutex::default() }
    }

    /// Sends a statement and waits for its rows.
    ///
    /// # Cancellation safety
    /// The statement was carried out or not; the connection is closed.
    pub(crate) async fn ask(&self, statement: &str, values: &[Value<'_>], limit: Duration) -> Result<Vec<Row>, Fault> {
        let until = Instant::now() + limit;
        let borrowed = timeout_at(until, self.borrow()).await.map_err(|_| Fault::NoConnection(limit))??;
        let answer = timeout_at(until, borrowed.link.client.query_typed(statement, values)).await;
        match answer {
            Ok(Ok(rows)) => {
                borrowed.give_back();
                Ok(rows)
            }
            Ok(Err(error)) => {
                if breaks_connection(&error) {
                    self.close_idle();
                } else {
                    borrowed.give_back();
                }
                Err(Fault::Asking(error))
            }
            Err(_) => {
                self.close_idle();
                Err(Fault::Silence(limit))
            }
        }
    }

    /// A connection of its own for somebody who does more than ask.
    pub(crate) async fn link(&self) -> Result<Link, Fault> {
        Link::connect(&self.config).await
    }

    async fn borrow(&self) -> Result<Borrowed<'_>, Fault> {
        let place = self.places.acquire().await.expect("it is never closed");
        let link = match self.take_idle() {
            Some(link) => link,
            None => Link::connect(&self.config).await?,
        };
        Ok(Borrowed { pool: self, link, _place: place })
    }

    fn take_idle(&self) -> Option<Link> {
        let mut idle = self.idle();
        std::iter::from_fn(|| idle.pop()).find(|link| !link.client.is_closed())
    }

    /// One connection broke or is silent: the others that nobody uses are likely to be so as well, and new ones are
    /// cheaper than finding out one by one.
    fn close_idle(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Borrowed<'_> {
    fn give_back(self) {
        self.pool.idle().push(self.link);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration knows the password.
        f.debug_struct("Pool").field("idle", &self.idle().len()).finish_non_exhaustive()
    }
}
