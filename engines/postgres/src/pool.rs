//! A few connections to a server, each with one request at a time.
//!
//! Every request is one statement that commits by itself. A request that is dropped in the middle closes its
//! connection, and the server rolls back or commits: no transaction stays open, and no answer is taken for another's.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::Rng;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::address::LONGEST_CONNECT;
use crate::dial::Dial;
use crate::error::{Fault, Unconnected, breaks_connection, is_taken_back};
use crate::tables::sql;

/// A value of a statement, with its type: the server is not asked for it.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement that the server took back is sent again after about this long, longer each time, and so often in all.
const TAKEN_BACK: (Duration, u32) = (Duration::from_millis(10), 5);
/// How long a request waits for a connection that others use before one more is made: about what making one takes.
const GROWS: Duration = Duration::from_millis(20);

/// One connection. Dropped, it is closed at once.
pub(crate) struct Link {
    pub(crate) client: Client,
    /// The statements that were sent, and what the server calls them if they were sent more than once.
    prepared: HashMap<String, Option<Statement>>,
    /// Carries what is sent and received. Ends when it is dropped.
    _driver: JoinSet<()>,
}

impl Link {
    /// Connects, makes the settings of ours, and does what makes it ready.
    async fn connect(dial: &Dial, warm: &str) -> Result<Self, Unconnected> {
        let connecting = async {
            let (client, connection) = dial.connect().await?;
            let mut driver = JoinSet::new();
            driver.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to PostgreSQL broke");
                }
            });
            client.batch_execute(sql!("ask/settings")).await?;
            client.batch_execute(warm).await?;
            Ok(Self { client, prepared: HashMap::new(), _driver: driver })
        };
        timeout(LONGEST_CONNECT, connecting).await.unwrap_or(Err(Unconnected::Slow))
    }

    /// Sends a statement in one round trip. When it is sent for the second time it is prepared first, which takes one
    /// more and makes all later ones cheaper: a short-lived client never comes to that.
    async fn query(&mut self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, tokio_postgres::Error> {
        let Some(known) = self.prepared.get_mut(text) else {
            self.prepared.insert(text.to_owned(), None);
            return self.client.query_typed(text, values).await;
        };
        let statement = match known {
            Some(statement) => statement,
            None => {
                let types: Vec<Type> = values.iter().map(|(_, kind)| kind.clone()).collect();
                known.insert(self.client.prepare_typed(text, &types).await?)
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
        self.client.query(&*statement, &values).await
    }
}

/// A few connections to a server.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    /// Whoever connects. A request that is given up does not take back the connection that is being made for it: on a
    /// busy server none would ever be finished.
    connecting: Mutex<JoinSet<()>>,
}

struct Shared {
    dial: Dial,
    most: usize,
    /// What makes a connection ready.
    warm: String,
    state: Mutex<State>,
    /// A connection is free, or could not be made.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Those that nobody uses at present, the last used one last.
    idle: Vec<Link>,
    /// All there are, those that are being made included.
    open: usize,
    connecting: bool,
    /// How often connecting failed, and why the last time.
    failures: u64,
    failure: Option<Unconnected>,
}

/// A connection that somebody uses. Closed when it is dropped, unless it is given back.
struct Borrowed<'a> {
    shared: &'a Shared,
    link: Option<Link>,
}

impl Pool {
    /// At most so many connections to a server. None is made yet.
    pub(crate) fn new(dial: Dial, most: usize, warm: String) -> Self {
        let shared = Shared { dial, most, warm, state: Mutex::default(), changed: Notify::new() };
        Self { shared: Arc::new(shared), connecting: Mutex::default() }
    }

    /// Sends a statement and waits for its rows. When the server takes it back because of somebody else's transaction,
    /// nothing has happened, and it is sent again.
    ///
    /// # Cancellation safety
    /// The statement was carried out or not; the connection is closed.
    pub(crate) async fn ask(&self, statement: &str, values: &[Value<'_>], limit: Duration) -> Result<Vec<Row>, Fault> {
        let until = Instant::now() + limit;
        let (pause, attempts) = TAKEN_BACK;
        let mut attempt = 1;
        loop {
            match self.ask_once(statement, values, until, limit).await {
                Err(fault) if is_taken_back(&fault) && attempt < attempts => {
                    let again = Instant::now() + pause.mul_f64(rand::rng().random_range(0.5..1.5)) * attempt;
                    if again >= until {
                        return Err(fault);
                    }
                    sleep_until(again).await;
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn ask_once(
        &self,
        statement: &str,
        values: &[Value<'_>],
        until: Instant,
        limit: Duration,
    ) -> Result<Vec<Row>, Fault> {
        let mut borrowed = timeout_at(until, self.borrow()).await.map_err(|_| Fault::NoConnection(limit))??;
        let answer = timeout_at(until, borrowed.link().query(statement, values)).await;
        match answer {
            Ok(Ok(rows)) => {
                borrowed.give_back();
                Ok(rows)
            }
            Ok(Err(error)) => {
                if breaks_connection(&error) {
                    self.shared.close_idle();
                } else {
                    borrowed.give_back();
                }
                Err(Fault::Asking(error))
            }
            Err(_) => {
                self.shared.close_idle();
                Err(Fault::Silence(limit))
            }
        }
    }

    /// A connection for somebody who does more than ask. It is not made ready: there may be no tables yet.
    pub(crate) async fn link(&self) -> Result<Link, Fault> {
        Link::connect(&self.shared.dial, "").await.map_err(Fault::Connecting)
    }

    /// Takes in a connection that was made apart.
    pub(crate) fn keep(&self, link: Link) {
        let mut state = self.shared.state();
        state.open += 1;
        state.idle.push(link);
    }

    async fn borrow(&self) -> Result<Borrowed<'_>, Fault> {
        let shared = &*self.shared;
        let failures = shared.state().failures;
        let mut waited = false;
        loop {
            let mut changed = pin!(shared.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = shared.state();
                if let Some(link) = state.take_idle() {
                    return Ok(Borrowed { shared, link: Some(link) });
                }
                if let Some(failure) = state.failure.as_ref().filter(|_| state.failures > failures) {
                    return Err(Fault::Connecting(failure.clone()));
                }
                if state.may_grow(shared.most, waited) {
                    self.connect();
                }
            }
            waited |= timeout(GROWS, changed).await.is_err();
        }
    }

    /// Makes one more connection, in the background.
    fn connect(&self) {
        let mut connecting = self.connecting.lock().unwrap_or_else(PoisonError::into_inner);
        while connecting.try_join_next().is_some() {}
        let shared = Arc::clone(&self.shared);
        connecting.spawn(async move {
            let connected = Link::connect(&shared.dial, &shared.warm).await;
            let mut state = shared.state();
            state.connecting = false;
            match connected {
                Ok(link) => {
                    state.idle.push(link);
                    shared.changed.notify_one();
                }
                Err(failure) => {
                    state.open -= 1;
                    state.failures += 1;
                    state.failure = Some(failure);
                    shared.changed.notify_waiters();
                }
            }
        });
    }
}

impl State {
    fn take_idle(&mut self) -> Option<Link> {
        while let Some(link) = self.idle.pop() {
            if !link.client.is_closed() {
                return Some(link);
            }
            self.open -= 1;
        }
        None
    }

    /// Whether one more connection is to be made: always the first one, others when nobody gave one back for a while.
    fn may_grow(&mut self, most: usize, waited: bool) -> bool {
        let grows = !self.connecting && self.open < most && (self.open == 0 || waited);
        if grows {
            self.connecting = true;
            self.open += 1;
        }
        grows
    }
}

impl Shared {
    /// One connection broke or is silent: the others that nobody uses are likely to be so as well, and new ones are
    /// cheaper than finding out one by one.
    fn close_idle(&self) {
        let mut state = self.state();
        state.open -= state.idle.len();
        state.idle.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Borrowed<'_> {
    fn link(&mut self) -> &mut Link {
        self.link.as_mut().expect("it is there until it is given back")
    }

    fn give_back(mut self) {
        let link = self.link.take();
        self.shared.state().idle.extend(link);
        self.shared.changed.notify_one();
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if self.link.take().is_some() {
            self.shared.state().open -= 1;
            // Whoever waits makes another one.
            self.shared.changed.notify_one();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration knows the password.
        f.debug_struct("Pool").field("open", &self.shared.state().open).finish_non_exhaustive()
    }
}
