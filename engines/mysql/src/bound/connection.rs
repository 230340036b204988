//! One connection that holds locks, and the task that it belongs to.
//!
//! The task runs on the keeper's runtime and does one thing after the other. It never leaves anything half done: a
//! caller that gives up waiting for an answer costs nobody a lock. When the connection ends, whatever it held is gone,
//! and so is the task.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId, Clock, Moment, Name};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::bound::grip::{Grip, Taken};
use crate::bound::roster::{Number, Roster};
use crate::error::Fault;
use crate::pool::end;
use crate::store::PATIENCE;

/// A connection that nobody used for this long is asked whether it lives before a lock is taken on it.
const RESTED: Duration = Duration::from_millis(250);
/// A connection that has locks is there for ever, as far as it knows.
const FAR: Duration = Duration::from_secs(86_400 * 365);
/// What it gets to answer. Whoever wanted it goes to another one then.
const PROMPT: Duration = Duration::from_millis(500);

/// What a connection is told to do.
pub(crate) enum Order {
    /// Take the lock for a claim, and wait for it for so long.
    Take(Box<Claim>, Duration, oneshot::Sender<Outcome>),
    /// Let go of what it has for a claim. It says whether it had it.
    LetGo(ClaimId, Name, oneshot::Sender<bool>),
    /// Say something, so that the server knows that we are there.
    Speak(oneshot::Sender<()>),
}

/// Whoever wants to know what became of it.
type Asker = oneshot::Sender<Outcome>;

/// What became of taking a lock.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The server said so.
    Taken(Taken),
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
    /// Locks that it has.
    holds: AtomicUsize,
}

impl Connection {
    /// A connection that is made by the first order, and the task that carries orders out until it ends.
    pub(crate) fn new(
        number: Number,
        options: Opts,
        lasts: Duration,
        grip: Arc<Grip>,
        roster: Arc<Roster>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (orders, receiver) = mpsc::unbounded_channel();
        let state = Arc::new(State::default());
        let task = Task { number, lasts, grip, roster, state: Arc::clone(&state), heard: Clock::Boot.now(), conn: None };
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

    /// It has no lock and nothing to do.
    pub(crate) fn is_free(&self) -> bool {
        self.orders() == 0 && self.state.holds.load(Ordering::Acquire) == 0
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
    roster: Arc<Roster>,
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
        self.roster.lost(self.number);
        while let Ok(order) = orders.try_recv() {
            give_up(order, None);
        }
    }

    async fn carry_out(&mut self, options: Opts, orders: &mut mpsc::UnboundedReceiver<Order>) {
        loop {
            // The server would end a connection that has nothing to do, and a lock must not be taken on it just then.
            let rest = if self.state.holds.load(Ordering::Acquire) == 0 { self.lasts / 2 } else { FAR };
            let Ok(Some(order)) = timeout(rest, orders.recv()).await else { return };
            self.state.busy_since.store(Clock::Boot.now().as_nanos(), Ordering::Release);
            if self.conn.is_none() {
                match timeout(PATIENCE, Conn::new(options.clone())).await {
                    Ok(Ok(conn)) => self.conn = Some(conn),
                    Ok(Err(error)) => return self.give_up(order, Fault::Connecting(error)),
                    Err(_) => return self.give_up(order, Fault::Silence { limit: PATIENCE, final_word: false }),
                }
                self.heard = Clock::Boot.now();
            }
            let done = match order {
                Order::Take(claim, wait, answer) => self.take(*claim, wait, answer).await,
                Order::LetGo(id, name, answer) => self.let_go(&id, &name, answer).await,
                Order::Speak(answer) => self.speak(answer).await,
            };
            if let Err(Over) = done {
                return;
            }
            self.state.busy_since.store(0, Ordering::Release);
            self.state.orders.fetch_sub(1, Ordering::AcqRel);
        }
    }

    async fn take(&mut self, claim: Claim, wait: Duration, answer: oneshot::Sender<Outcome>) -> Result<(), Over> {
        if !self.roster.wanted(&claim.id) {
            self.settle(&claim);
            let _ = answer.send(Outcome::Unwanted);
            return Ok(());
        }
        let answer = match self.prompt(&claim.id, answer).await? {
            Some(answer) => answer,
            None => {
                self.roster.refused(&claim.id, self.number);
                self.settle(&claim);
                return Ok(());
            }
        };
        let (grip, sent) = (Arc::clone(&self.grip), Clock::Boot.now());
        let (limit, conn) = (self.limit() + wait, self.conn.as_mut().ok_or(Over)?);
        let taken = timeout(limit, grip.take(conn, &claim, wait)).await;
        let taken = taken.unwrap_or(Err(Fault::Silence { limit, final_word: true }));
        let outcome = match taken {
            Ok(Taken::Granted(token)) => {
                self.heard = sent;
                self.state.holds.fetch_add(1, Ordering::AcqRel);
                if !self.roster.granted(&claim.id, self.number, token) {
                    self.give_back(&claim.id, &claim.name).await?;
                    Outcome::Unwanted
                } else {
                    Outcome::Taken(Taken::Granted(token))
                }
            }
            Ok(Taken::Evicted) => {
                self.state.holds.fetch_add(1, Ordering::AcqRel);
                self.give_back(&claim.id, &claim.name).await?;
                Outcome::Taken(Taken::Evicted)
            }
            Ok(Taken::Busy) => {
                self.heard = sent;
                self.roster.refused(&claim.id, self.number);
                self.settle(&claim);
                Outcome::Taken(Taken::Busy)
            }
            Err(fault) => {
                if fault.ends_connection() {
                    self.roster.lost(self.number);
                    let _ = answer.send(Outcome::Failed(fault));
                    return Err(Over);
                }
                // The lock may be ours, although nothing else of it worked.
                self.state.holds.fetch_add(1, Ordering::AcqRel);
                self.give_back(&claim.id, &claim.name).await?;
                Outcome::Failed(fault)
            }
        };
        let _ = answer.send(outcome);
        Ok(())
    }

    async fn let_go(&mut self, id: &ClaimId, name: &Name, answer: oneshot::Sender<bool>) -> Result<(), Over> {
        // Otherwise it was given back before, or was never had.
        let had = self.roster.has(id, self.number) && self.give_back(id, name).await?;
        let _ = answer.send(had);
        Ok(())
    }

    async fn give_back(&mut self, id: &ClaimId, name: &Name) -> Result<bool, Over> {
        let (grip, sent) = (Arc::clone(&self.grip), Clock::Boot.now());
        let (limit, conn) = (self.limit(), self.conn.as_mut().ok_or(Over)?);
        match timeout(limit, grip.let_go(conn, id, name)).await {
            Ok(Ok(had)) => {
                self.heard = sent;
                self.state.holds.fetch_sub(1, Ordering::AcqRel);
                self.roster.left(id);
                Ok(had)
            }
            // What cannot be given back ends with its connection.
            _ => Err(Over),
        }
    }

    async fn speak(&mut self, answer: oneshot::Sender<()>) -> Result<(), Over> {
        let (sent, limit) = (Clock::Boot.now(), self.limit());
        match timeout(limit, self.conn.as_mut().ok_or(Over)?.ping()).await {
            Ok(Ok(())) => {
                self.heard = sent;
                let _ = answer.send(());
                Ok(())
            }
            _ => Err(Over),
        }
    }

    /// Gives the answer back if the connection answers. If it does not, whoever waits is told at once to go elsewhere,
    /// and the connection still gets as long as its locks can be worth something.
    async fn prompt(&mut self, id: &ClaimId, answer: oneshot::Sender<Outcome>) -> Result<Option<Asker>, Over> {
        let sent = Clock::Boot.now();
        if sent.since(self.heard) < RESTED {
            return Ok(Some(answer));
        }
        let limit = if self.state.holds.load(Ordering::Acquire) == 0 { PROMPT } else { self.limit() };
        let mut ping = std::pin::pin!(self.conn.as_mut().ok_or(Over)?.ping());
        let answer = match timeout(PROMPT, &mut ping).await {
            Ok(Ok(())) => Some(answer),
            Ok(Err(_)) => {
                self.roster.lost(self.number);
                let _ = answer.send(Outcome::NotSent);
                return Err(Over);
            }
            Err(_) => {
                self.roster.refused(id, self.number);
                let _ = answer.send(Outcome::NotSent);
                match timeout(limit.saturating_sub(PROMPT), &mut ping).await {
                    Ok(Ok(())) => None,
                    _ => return Err(Over),
                }
            }
        };
        self.heard = sent;
        Ok(answer)
    }

    /// A claim that nobody wants any more is out, now that it is known that it has nothing.
    fn settle(&self, claim: &Claim) {
        if self.roster.leaves(&claim.id, self.number) {
            self.roster.left(&claim.id);
        }
    }

    fn give_up(&self, order: Order, fault: Fault) {
        self.roster.lost(self.number);
        give_up(order, Some(fault));
    }

    /// How long an answer is waited for: as long as the server honours what the connection has.
    fn limit(&self) -> Duration {
        let left = (self.heard + self.lasts).since(Clock::Boot.now());
        if self.state.holds.load(Ordering::Acquire) == 0 { PATIENCE } else { left.max(PROMPT) }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.roster.lost(self.number);
        if let Some(conn) = self.conn.take() {
            end(conn, None);
        }
    }
}

/// An order that could not even be sent: because of that, or because the connection ended before.
fn give_up(order: Order, fault: Option<Fault>) {
    match order {
        Order::Take(_, _, answer) => drop(answer.send(fault.map_or(Outcome::NotSent, Outcome::Failed))),
        // What the connection had is gone with it.
        Order::LetGo(_, _, answer) => drop(answer.send(false)),
        Order::Speak(_) => {}
    }
}
