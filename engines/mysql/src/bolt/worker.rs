//! What a connection that holds locks does: one thing after the other, and nothing half.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockhouse_core::{ClaimId, Clock, Moment, Name};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::bolt::bolts::{Bolts, Number};
use crate::bolt::connection::{Left, Opening, Order, Outcome, PROMPT, Shutting, State};
use crate::bolt::grip::Grip;
use crate::error::Fault;
use crate::pool::end;
use crate::statement::Value;
use crate::store::PATIENCE;

/// A connection that nobody used for this long is asked whether it lives before a bolt is shut on it.
const RESTED: Duration = Duration::from_millis(250);

/// A connection that holds locks, for whoever uses it at present.
pub(crate) struct Worker {
    pub(crate) number: Number,
    /// How long the server honours the connection without hearing of us.
    pub(crate) lasts: Duration,
    pub(crate) grip: Arc<Grip>,
    pub(crate) bolts: Arc<Bolts>,
    pub(crate) state: Arc<State>,
    /// When something was sent that the server answered.
    pub(crate) heard: Moment,
    pub(crate) conn: Option<Conn>,
    /// Whoever uses it sees to it that this ends.
    pub(crate) is_lent: bool,
}

/// The connection ended.
pub(crate) struct Over;

/// Who is to hear that something is open, and whether its claim has left its line: when the connection is free, since
/// they may want it for something else.
pub(crate) struct Opened(Option<(oneshot::Sender<Left>, Left)>);

impl Opened {
    pub(crate) fn tell(self) {
        if let Self(Some((answer, left))) = self {
            let _ = answer.send(left);
        }
    }
}

impl Worker {
    /// Connects, if it has not yet.
    pub(crate) async fn connect(&mut self, options: &Opts) -> Result<(), Fault> {
        if self.conn.is_some() {
            return Ok(());
        }
        let sent = Clock::Boot.now();
        let conn = timeout(PATIENCE, Conn::new(options.clone())).await;
        let conn = conn.map_err(|_| Fault::Silence { limit: PATIENCE, final_word: false })?;
        (self.conn, self.heard) = (Some(conn.map_err(Fault::Connecting)?), sent);
        Ok(())
    }

    /// Carries an order out.
    pub(crate) async fn obey(&mut self, order: Order) -> Result<Opened, Over> {
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
            Order::Open(Opening { id, name, leaves }, answer) => {
                let left = if self.bolts.has(&id, self.number) {
                    self.open(&id, &name, leaves).await?
                } else {
                    self.bolts.settle(&id, self.number);
                    Ok(false)
                };
                return Ok(Opened(Some((answer, left))));
            }
            Order::Speak(answer) => {
                let ping = async |conn: &mut Conn| {
                    conn.ping().await.map_err(|error| Fault::Asking { error, final_word: false })
                };
                self.ask(ping).await.map_err(|_| Over)?;
                let _ = answer.send(());
            }
        }
        Ok(Opened(None))
    }

    /// Whether it needs not be asked first whether it lives.
    pub(crate) fn is_prompt(&self) -> bool {
        self.conn.is_some() && Clock::Boot.now().since(self.heard) < RESTED
    }

    /// For how long it may be left alone. The server would end a connection that has nothing to do, and nothing must be
    /// shut on it just then.
    pub(crate) fn rest(&self) -> Option<Duration> {
        let until = self.heard + self.lasts / 2;
        (!self.state.has_any()).then(|| until.since(Clock::Boot.now()))
    }

    /// Ends the connection: what it has shut is open.
    pub(crate) fn end(&mut self) {
        self.state.end();
        self.bolts.lost(self.number);
        if let Some(conn) = self.conn.take() {
            end(conn, None);
        }
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
                    drop(self.open(id, name, None).await?);
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

    /// Opens a bolt, and says whether its claim has left its line with that.
    async fn open(&mut self, id: &ClaimId, name: &Name, leaves: Option<Value>) -> Result<Left, Over> {
        let grip = Arc::clone(&self.grip);
        // It may take a while, and must not keep waiting what else the connection holds.
        let leaves = leaves.filter(|_| self.state.holds(1));
        let opened = self.ask(async |conn| {
            let left = match leaves {
                Some(lease) => grip.leave(conn, id, name, lease).await,
                None => Ok(false),
            };
            match left {
                Ok(true) => return Ok(Ok(true)),
                Err(fault) if !fault.is_the_servers() => return Err(fault),
                Ok(false) | Err(_) => {}
            }
            grip.open(conn, name).await.map(|()| left)
        });
        let left = opened.await.map_err(|_| Over)?;
        self.state.shut.fetch_sub(1, Ordering::AcqRel);
        self.bolts.opened(id);
        Ok(left)
    }

    /// Gives the answer back if the connection answers. If it does not, whoever waits is told at once to go elsewhere,
    /// and the connection still gets as long as what it has shut can be worth something.
    async fn prompt(
        &mut self,
        id: &ClaimId,
        answer: oneshot::Sender<Outcome>,
    ) -> Result<Option<oneshot::Sender<Outcome>>, Over> {
        if self.is_lent || self.is_prompt() {
            return Ok(Some(answer));
        }
        let (sent, limit) = (Clock::Boot.now(), if self.state.has_any() { self.limit() } else { PROMPT });
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
        let (sent, limit, is_lent) = (Clock::Boot.now(), self.limit(), self.is_lent);
        let silence = Fault::Silence { limit, final_word: true };
        let Some(conn) = self.conn.as_mut() else { return Err(silence) };
        let question = question(conn);
        let answer = if is_lent { question.await } else { timeout(limit, question).await.unwrap_or(Err(silence)) }?;
        self.heard = sent;
        Ok(answer)
    }

    fn limit(&self) -> Duration {
        let left = (self.heard + self.lasts).since(Clock::Boot.now());
        if self.state.has_any() { left.max(PROMPT) } else { PATIENCE }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}
