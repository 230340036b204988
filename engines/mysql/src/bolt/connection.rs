//! One connection that holds locks, and the task that it belongs to.
//!
//! The task runs on the keeper's runtime and does one thing after the other. It never leaves anything half done: a
//! caller that gives up waiting for an answer costs nobody a lock. When the connection ends, whatever it had shut is
//! open, and the task is over.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockhouse_core::{ClaimId, Clock, Moment, Name};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::bolt::bolts::{Bolts, Number};
use crate::bolt::grip::{Entrance, Grip};
use crate::error::Fault;
use crate::pool::end;
use crate::store::PATIENCE;

/// A connection that nobody used for this long is asked whether it lives before a bolt is shut on it.
const RESTED: Duration = Duration::from_millis(250);
/// What it gets to answer. Whoever wanted it goes to another one then.
const PROMPT: Duration = Duration::from_secs(1);
/// A connection that has shut something is there for ever, as far as it knows.
const FAR: Duration = Duration::from_secs(86_400 * 365);

/// What a connection is told to do.
pub(crate) enum Order {
    /// Shut a claim's bolt.
    Shut(Shutting, oneshot::Sender<Outcome>),
    /// Let readers in beside it. It says whether it has it still.
    Weaken(ClaimId, Name, oneshot::Sender<bool>),
    /// Open it.
    Open(ClaimId, Name, oneshot::Sender<()>),
    /// Say something, so that the server knows that we are there.
    Speak(oneshot::Sender<()>),
}

/// A bolt that is to be shut.
#[derive(Debug)]
pub(crate) struct Shutting {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    /// For a reader, or for one alone.
    pub(crate) shared: bool,
    /// Its claim asks for its turn by the same request.
    pub(crate) entrance: Option<Box<Entrance>>,
}

/// What became of shutting a bolt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is shut. The token of a claim that asked for its turn with it.
    Shut(Option<u64>),
    /// Another program has the lock.
    Busy,
    /// Nobody wants it any more.
    Unwanted,
    /// Nothing was sent: this connection does not answer, and another one may.
    NotSent,
    /// It failed.
    Failed(Fault),
}

/// A connection, as those see it who tell it what to do.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: Number,
    orders: mpsc::UnboundedSender<Order>,
    state: Arc<State>,
}

/// What can be seen from outside.
#[derive(Debug, Default)]
struct State {
    /// Orders that are not carried out yet.
    orders: AtomicUsize,
    /// Since when the present one is; 0 when there is none.
    busy_since: AtomicU64,
    /// Bolts that it has shut.
    shut: AtomicUsize,
}

impl State {
    fn has_any(&self) -> bool {
        self.shut.load(Ordering::Acquire) > 0
    }
}

impl Connection {
    /// A connection that is made by the first order, and the task that carries orders out until it ends.
    pub(crate) fn new(
        number: Number,
        options: Opts,
        lasts: Duration,
        grip: Arc<Grip>,
        bolts: Arc<Bolts>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (orders, receiver) = mpsc::unbounded_channel();
        let state = Arc::new(State::default());
        let task = Task { number, lasts, grip, bolts, state: Arc::clone(&state), heard: Clock::Boot.now(), conn: None };
        (Self { number, orders, state }, task.work(options, receiver))
    }

    /// Tells it what to do. `false` when it has ended.
    pub(crate) fn tell(&self, order: Order) -> bool {
        self.state.orders.fetch_add(1, Ordering::AcqRel);
        self.orders.send(order).is_ok()
    }

    /// It has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.orders.is_closed()
    }

    /// How many orders it has yet to carry out.
    pub(crate) fn orders(&self) -> usize {
        self.state.orders.load(Ordering::Acquire)
    }

    /// It has shut nothing and has nothing to do.
    pub(crate) fn is_free(&self) -> bool {
        self.orders() == 0 && !self.state.has_any()
    }

    /// It has been at one thing for so long that it may never answer.
    pub(crate) fn is_stuck(&self) -> bool {
        let since = self.state.busy_since.load(Ordering::Acquire);
        since != 0 && Clock::Boot.now().since(Moment::from_nanos(since)) > PROMPT
    }
}

struct Task {
    number: Number,
    /// How long the server honours the connection without hearing of us.
    lasts: Duration,
    grip: Arc<Grip>,
    bolts: Arc<Bolts>,
    state: Arc<State>,
    /// When something was sent that the server answered.
    heard: Moment,
    conn: Option<Conn>,
}

/// The connection ended.
struct Over;

impl Task {
    async fn work(mut self, options: Opts, mut orders: mpsc::UnboundedReceiver<Order>) {
        self.carry_out(options, &mut orders).await;
        orders.close();
        self.bolts.lost(self.number);
        while let Ok(order) = orders.try_recv() {
            give_up(order, None);
        }
    }

    async fn carry_out(&mut self, options: Opts, orders: &mut mpsc::UnboundedReceiver<Order>) {
        loop {
            // The server would end a connection that has nothing to do, and nothing must be shut on it just then.
            let rest = if self.state.has_any() { FAR } else { self.lasts / 2 };
            let Ok(Some(order)) = timeout(rest, orders.recv()).await else { return };
            self.state.busy_since.store(Clock::Boot.now().as_nanos(), Ordering::Release);
            if self.conn.is_none() {
                let sent = Clock::Boot.now();
                let fault = match timeout(PATIENCE, Conn::new(options.clone())).await {
                    Ok(Ok(conn)) => {
                        (self.conn, self.heard) = (Some(conn), sent);
                        None
                    }
                    Ok(Err(error)) => Some(Fault::Connecting(error)),
                    Err(_) => Some(Fault::Silence { limit: PATIENCE, final_word: false }),
                };
                if fault.is_some() {
                    self.bolts.lost(self.number);
                    return give_up(order, fault);
                }
            }
            let Ok(opened) = self.obey(order).await else { return };
            self.state.busy_since.store(0, Ordering::Release);
            self.state.orders.fetch_sub(1, Ordering::AcqRel);
            // Whoever hears of it may want the connection for something else.
            if let Some(opened) = opened {
                let _ = opened.send(());
            }
        }
    }

    /// Carries an order out. Whoever is to hear that something is open hears it when the connection is free.
    async fn obey(&mut self, order: Order) -> Result<Option<oneshot::Sender<()>>, Over> {
        match order {
            Order::Shut(shutting, answer) => self.shut(&shutting, answer).await?,
            Order::Weaken(id, name, answer) => {
                let grip = Arc::clone(&self.grip);
                let weakened = self.ask(async |conn| grip.weaken(conn, &name).await).await;
                match weakened.map_err(|_| Over)? {
                    true => self.bolts.weakened(&id, self.number),
                    false => {
                        self.state.shut.fetch_sub(1, Ordering::AcqRel);
                        self.bolts.taken(&id, self.number);
                    }
                }
                let _ = answer.send(self.bolts.has(&id, self.number));
            }
            Order::Open(id, name, answer) => {
                if self.bolts.has(&id, self.number) {
                    self.open(&id, &name).await?;
                } else {
                    self.bolts.settle(&id, self.number);
                }
                return Ok(Some(answer));
            }
            Order::Speak(answer) => {
                let ping = async |conn: &mut Conn| {
                    conn.ping().await.map_err(|error| Fault::Asking { error, final_word: false })
                };
                self.ask(ping).await.map_err(|_| Over)?;
                let _ = answer.send(());
            }
        }
        Ok(None)
    }

    async fn shut(&mut self, shutting: &Shutting, answer: oneshot::Sender<Outcome>) -> Result<(), Over> {
        let Shutting { id, name, shared, entrance } = shutting;
        if !self.bolts.is_wanted(id, self.number) {
            self.bolts.settle(id, self.number);
            let _ = answer.send(Outcome::Unwanted);
            return Ok(());
        }
        let Some(answer) = self.prompt(id, answer).await? else { return Ok(()) };
        let grip = Arc::clone(&self.grip);
        let shut = async |conn: &mut Conn| match entrance {
            Some(entrance) => Ok(grip.enter(conn, entrance).await?.map(|token| Outcome::Shut(Some(token)))),
            None => Ok(grip.shut(conn, name, *shared).await?.then_some(Outcome::Shut(None))),
        };
        let outcome = match self.ask(shut).await {
            Ok(Some(outcome)) => {
                self.state.shut.fetch_add(1, Ordering::AcqRel);
                if self.bolts.shut(id, self.number, *shared) {
                    outcome
                } else {
                    self.open(id, name).await?;
                    Outcome::Unwanted
                }
            }
            Ok(None) => {
                self.bolts.busy(id, self.number);
                self.bolts.settle(id, self.number);
                Outcome::Busy
            }
            // Whether it is shut is not known: it ends with the connection.
            Err(fault) => {
                self.bolts.lost(self.number);
                let _ = answer.send(Outcome::Failed(fault));
                return Err(Over);
            }
        };
        let _ = answer.send(outcome);
        Ok(())
    }

    async fn open(&mut self, id: &ClaimId, name: &Name) -> Result<(), Over> {
        let grip = Arc::clone(&self.grip);
        self.ask(async |conn| grip.open(conn, name).await).await.map_err(|_| Over)?;
        self.state.shut.fetch_sub(1, Ordering::AcqRel);
        self.bolts.opened(id);
        Ok(())
    }

    /// Gives the answer back if the connection answers. If it does not, whoever waits is told at once to go elsewhere,
    /// and the connection still gets as long as what it has shut can be worth something.
    async fn prompt(
        &mut self,
        id: &ClaimId,
        answer: oneshot::Sender<Outcome>,
    ) -> Result<Option<oneshot::Sender<Outcome>>, Over> {
        let sent = Clock::Boot.now();
        if sent.since(self.heard) < RESTED {
            return Ok(Some(answer));
        }
        let limit = if self.state.has_any() { self.limit() } else { PROMPT };
        let mut ping = std::pin::pin!(self.conn.as_mut().ok_or(Over)?.ping());
        let prompt = timeout(PROMPT, &mut ping).await;
        let answer = match prompt {
            Ok(Ok(())) => Some(answer),
            _ => {
                self.bolts.untried(id, self.number);
                self.bolts.settle(id, self.number);
                let _ = answer.send(Outcome::NotSent);
                let late = limit.saturating_sub(PROMPT);
                if prompt.is_ok() || !matches!(timeout(late, &mut ping).await, Ok(Ok(()))) {
                    return Err(Over);
                }
                None
            }
        };
        self.heard = sent;
        Ok(answer)
    }

    /// Asks the server something, for as long as it honours what the connection has shut.
    async fn ask<T>(&mut self, question: impl AsyncFnOnce(&mut Conn) -> Result<T, Fault>) -> Result<T, Fault> {
        let (sent, limit) = (Clock::Boot.now(), self.limit());
        let silence = Fault::Silence { limit, final_word: true };
        let Some(conn) = self.conn.as_mut() else { return Err(silence) };
        let answer = timeout(limit, question(conn)).await.unwrap_or(Err(silence))?;
        self.heard = sent;
        Ok(answer)
    }

    fn limit(&self) -> Duration {
        let left = (self.heard + self.lasts).since(Clock::Boot.now());
        if self.state.has_any() { left.max(PROMPT) } else { PATIENCE }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.bolts.lost(self.number);
        if let Some(conn) = self.conn.take() {
            end(conn, None);
        }
    }
}

/// An order that could not even be sent: because of that, or because the connection ended before.
fn give_up(order: Order, fault: Option<Fault>) {
    match order {
        Order::Shut(_, answer) => drop(answer.send(fault.map_or(Outcome::NotSent, Outcome::Failed))),
        // What the connection had shut is open with its end. Whoever waits for the others learns it by their silence.
        Order::Open(_, _, answer) => drop(answer.send(())),
        Order::Weaken(..) | Order::Speak(_) => {}
    }
}
