//! Few connections for many requests.
//!
//! A connection is given back only by a request that is completely done with it. Whatever else happens to a request,
//! a time limit, an error or a future that is dropped, ends its connection, and with it the transaction on it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Clock, ClockWatch, Error, Moment};
use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Error as DriverError, Opts, Row};
use rand::Rng;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::{Fault, explain};
use crate::statement::{Tables, Values};

/// A connection that nobody used for this long may have been ended by the server or by something in between: it is
/// asked before anything depends on it.
const RESTED: Duration = Duration::from_millis(250);
/// What a connection that is asked gets to answer.
const PING: Duration = Duration::from_millis(500);
/// Which of two transactions that wait for each other is ended is up to the server: one of them gets through.
const DEADLOCKS: u32 = 10;
/// Whoever takes a lock asks for the server's time, too, when nobody has for this long.
const TIMELESS: Duration = Duration::from_secs(1);

/// The connections of one side of a client.
pub(crate) struct Pool {
    options: Opts,
    server: String,
    idle: Mutex<Vec<Idle>>,
    /// One for each request that has a connection, or is about to.
    uses: Arc<Semaphore>,
    /// One for each connection, until it is closed.
    connections: Arc<Semaphore>,
    /// One less, for requests that may have to wait for the gate of a lock: they must not keep a release waiting.
    waits: Arc<Semaphore>,
    /// What both sides of the client know of the server's clock.
    pub(crate) clock: Arc<ClockWatch>,
    /// When this side last learned the server's time.
    told_time: Mutex<Option<Moment>>,
}

struct Idle {
    connection: Counted,
    since: Moment,
}

/// A connection, and that it is one of so many.
struct Counted {
    connection: Conn,
    counted: OwnedSemaphorePermit,
}

impl Pool {
    /// At most so many connections to a server, of which none is made yet.
    pub(crate) fn new(options: Opts, server: String, most: usize, clock: Arc<ClockWatch>) -> Self {
        let [uses, connections, waits] = [most, most, most.max(2) - 1].map(|some| Arc::new(Semaphore::new(some)));
        let (idle, told_time) = Default::default();
        Self { options, server, idle, uses, connections, waits, clock, told_time }
    }

    /// Carries a request out within a time limit, and again when the server ended it in favour of another.
    pub(crate) async fn run<T, R>(&self, limit: Duration, request: &R) -> Result<T, Error>
    where
        R: Request<Answer = T>,
    {
        // It outlives the request: whether a request that was cut off may have been carried out is asked afterwards.
        let final_word = AtomicBool::new(false);
        let outcome = timeout(limit, self.patiently(request, &final_word)).await;
        let silence = |_| Err(Fault::Silence { limit, final_word: final_word.load(Ordering::Acquire) });
        outcome.unwrap_or_else(silence).map_err(|fault| {
            if fault.breaks_connections() {
                self.forget();
            }
            explain(fault, &self.server)
        })
    }

    async fn patiently<T, R>(&self, request: &R, final_word: &AtomicBool) -> Result<T, Fault>
    where
        R: Request<Answer = T>,
    {
        let mut deadlocks = 0;
        loop {
            let mut session = self.session(R::WAITS, final_word).await?;
            match request.carry_out(&mut session).await {
                Ok(answer) => {
                    session.give_back();
                    return Ok(answer);
                }
                Err(fault) if fault.is_deadlock() && deadlocks < DEADLOCKS => {
                    deadlocks += 1;
                    final_word.store(false, Ordering::Release);
                    drop(session);
                    let pause = Duration::from_millis(rand::rng().random_range(1..=5) * u64::from(deadlocks));
                    tokio::time::sleep(pause).await;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    async fn session<'a>(&'a self, waits: bool, final_word: &'a AtomicBool) -> Result<Session<'a>, Fault> {
        let permit = async |of: &Arc<Semaphore>| Arc::clone(of).acquire_owned().await.expect("it is never closed");
        let wait = if waits { Some(permit(&self.waits).await) } else { None };
        let mut owned = Owned { connection: None, _wait: wait, _use: permit(&self.uses).await };
        while let Some((connection, rested)) = self.rested() {
            owned.connection = Some(connection);
            if !rested || owned.lives().await {
                return Ok(Session { pool: self, owned, final_word, sent: Moment::NEVER });
            }
            owned.end();
        }
        // All that is waited for here is the end of those that are being closed.
        let counted = permit(&self.connections).await;
        let connection = Conn::new(self.options.clone()).await.map_err(Fault::Connecting)?;
        owned.connection = Some(Counted { connection, counted });
        Ok(Session { pool: self, owned, final_word, sent: Moment::NEVER })
    }

    /// The connection that was used last, and whether that is long ago.
    fn rested(&self) -> Option<(Counted, bool)> {
        let Idle { connection, since } = self.idle().pop()?;
        Some((connection, Clock::Boot.now().since(since) > RESTED))
    }

    /// Ends every connection that nobody uses: something happened that they may not have heard of.
    pub(crate) fn forget(&self) {
        for Idle { connection: Counted { connection, counted }, .. } in self.idle().drain(..) {
            end(connection, Some(counted));
        }
    }

    /// Whether it is time to learn the server's time again.
    pub(crate) fn wants_time(&self) -> bool {
        self.told_time().is_none_or(|told| Clock::Boot.now().since(told) > TIMELESS)
    }

    fn told_time(&self) -> MutexGuard<'_, Option<Moment>> {
        self.told_time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.forget();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options know the password.
        f.debug_struct("Pool").field("server", &self.server).field("idle", &self.idle().len()).finish_non_exhaustive()
    }
}

/// Something to be asked of the server, as often as it takes.
pub(crate) trait Request: Sync {
    /// What comes back.
    type Answer: Send;

    /// Whether it may have to wait for the gate of a lock.
    const WAITS: bool = false;

    /// Carries it out on a connection that nobody else uses. An error ends the connection.
    fn carry_out(&self, session: &mut Session<'_>) -> impl Future<Output = Result<Self::Answer, Fault>> + Send;
}

/// A connection for one request.
pub(crate) struct Session<'a> {
    pool: &'a Pool,
    owned: Owned,
    final_word: &'a AtomicBool,
    /// When something was last sent on it.
    sent: Moment,
}

impl Session<'_> {
    /// Sends statements that change nothing unless something else is sent after them.
    pub(crate) async fn look(&mut self, text: &str) -> Result<Vec<Set>, Fault> {
        self.send(text, false).await
    }

    /// Sends statements that are carried out, whatever becomes of us: in a transaction, up to its commit.
    pub(crate) async fn write(&mut self, text: &str) -> Result<Vec<Set>, Fault> {
        self.final_word.store(true, Ordering::Release);
        self.send(text, true).await
    }

    /// Has one statement carried out, whatever becomes of us.
    pub(crate) async fn execute(&mut self, tables: &Tables, one: &str, values: &Values<'_>) -> Result<Set, Fault> {
        self.final_word.store(true, Ordering::Release);
        execute(self.connection()?, tables, one, values).await
    }

    async fn send(&mut self, text: &str, final_word: bool) -> Result<Vec<Set>, Fault> {
        ask(self.connection()?, text).await.map_err(|error| Fault::Asking { error, final_word })
    }

    /// The connection, for something that is sent now.
    fn connection(&mut self) -> Result<&mut Conn, Fault> {
        self.sent = Clock::Boot.now();
        match self.owned.connection.as_mut() {
            Some(Counted { connection, .. }) => Ok(connection),
            None => Err(Fault::Answer("the connection was given back".into())),
        }
    }

    /// Takes note of the server's time, which is in a column of the answer to what was sent last.
    pub(crate) fn learn_time(&self, row: &Row, at: usize) -> Result<(), Fault> {
        self.pool.clock.observe("", column(row, at)?, self.sent);
        *self.pool.told_time() = Some(self.sent);
        Ok(())
    }

    /// Whether it is time to learn it again.
    pub(crate) fn wants_time(&self) -> bool {
        self.pool.wants_time()
    }

    /// What the other end called this connection when it was made.
    pub(crate) fn number(&self) -> Option<u32> {
        self.owned.connection.as_ref().map(|counted| counted.connection.id())
    }

    fn give_back(mut self) {
        if let Some(connection) = self.owned.connection.take() {
            self.pool.idle().push(Idle { connection, since: Clock::Boot.now() });
        }
    }
}

/// One statement's answer.
#[derive(Debug)]
pub(crate) struct Set {
    /// How many rows it changed.
    pub(crate) changed: u64,
    /// What it gave to `LAST_INSERT_ID`.
    pub(crate) number: Option<u64>,
    /// The rows it found.
    pub(crate) rows: Vec<Row>,
}

/// Sends statements, and waits for all their answers.
pub(crate) async fn ask(connection: &mut Conn, text: &str) -> mysql_async::Result<Vec<Set>> {
    let mut sets = Vec::new();
    let mut result = connection.query_iter(text).await?;
    while result.columns().is_some() {
        let (changed, number) = (result.affected_rows(), result.last_insert_id());
        let rows = result.collect().await?;
        sets.push(Set { changed, number, rows });
    }
    // The driver keeps the error of any statement but the first for whoever asks for the next row.
    result.next().await?;
    Ok(sets)
}

/// Has one statement carried out, whatever becomes of us. It is prepared at the first time, if the server lets us.
pub(crate) async fn execute(
    connection: &mut Conn,
    tables: &Tables,
    one: &str,
    values: &Values<'_>,
) -> Result<Set, Fault> {
    let sent = |error| Fault::Asking { error, final_word: true };
    let (text, parameters) = tables.prepare(one, values);
    let statement = match connection.prep(text).await {
        // There are too many on the server, or something in between knows none.
        Err(DriverError::Server(error)) if matches!(error.code, 1295 | 1461) => {
            let sets = ask(connection, &tables.write(one, values)).await.map_err(sent)?;
            return sets.into_iter().next().ok_or_else(|| Fault::Answer("no answer".into()));
        }
        statement => statement.map_err(|error| Fault::Asking { error, final_word: false })?,
    };
    let mut result = connection.exec_iter(statement, parameters).await.map_err(sent)?;
    let (changed, number) = (result.affected_rows(), result.last_insert_id());
    Ok(Set { changed, number, rows: result.collect().await.map_err(sent)? })
}

/// One statement's answer among those of a text.
pub(crate) fn set(sets: &[Set], at: usize) -> Result<&Set, Fault> {
    sets.get(at).ok_or_else(|| Fault::Answer(format!("{} answers, and not {}", sets.len(), at + 1)))
}

/// A column of a row.
pub(crate) fn column<T: FromValue>(row: &Row, at: usize) -> Result<T, Fault> {
    match row.get_opt(at) {
        Some(Ok(value)) => Ok(value),
        _ => Err(Fault::Answer(format!("column {at} is not what it should be"))),
    }
}

/// A connection that ends with its owner, unless it is taken out.
struct Owned {
    connection: Option<Counted>,
    _use: OwnedSemaphorePermit,
    _wait: Option<OwnedSemaphorePermit>,
}

impl Owned {
    async fn lives(&mut self) -> bool {
        match &mut self.connection {
            Some(Counted { connection, .. }) => matches!(timeout(PING, connection.ping()).await, Ok(Ok(()))),
            None => false,
        }
    }

    fn end(&mut self) {
        if let Some(Counted { connection, counted }) = self.connection.take() {
            end(connection, Some(counted));
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends a connection at once. It counts until it is closed.
///
/// Dropped inside a runtime, the driver would leave a task behind that reads the answers still to come, for as long as
/// they take: for ever, when the network is gone. Outside of one it closes the connection and no more.
pub(crate) fn end(connection: Conn, counted: Option<OwnedSemaphorePermit>) {
    type Ended = (Conn, Option<OwnedSemaphorePermit>);
    static ENDER: LazyLock<Mutex<Sender<Ended>>> = LazyLock::new(|| {
        let (sender, receiver) = channel();
        std::thread::spawn(move || receiver.iter().for_each(drop::<Ended>));
        Mutex::new(sender)
    });
    // It fails only if the thread is gone, and then the connection is dropped here.
    let _ = ENDER.lock().unwrap_or_else(PoisonError::into_inner).send((connection, counted));
}
