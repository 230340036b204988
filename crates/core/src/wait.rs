//! The front: from the caller's task straight to the engine, and back with a hold.
//!
//! An uncontended lock is one request. A claim that has to wait sleeps until the engine says that it may have moved,
//! behind which stands a poll of our own. The claim is in the ledger before its first byte is sent, and whoever drops
//! the future hands it to the keeper: a cancelled wait leaves no place in line.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::Patience;
use crate::client::Client;
use crate::clock::Moment;
use crate::engine::Standing;
use crate::error::{Error, Kind, Result};
use crate::hold::Hold;
use crate::options::Terms;

/// The longest that one request may take.
pub(crate) const LONGEST_REQUEST: Duration = Duration::from_secs(5);
/// An engine that answers no claim of this client is given up after this by who was never answered; by who was, when
/// the claim must have lapsed. One that answers others is busy: whoever waits for a lock can wait for it, too.
const FIRST_CONTACT: Duration = Duration::from_secs(5);
/// What an answer that is on its way gets when the wait is over.
const LAST_ANSWER: Duration = Duration::from_millis(150);
/// The longest that a caller whose wait is over is kept for leaving the line.
const LEAVING: Duration = Duration::from_millis(100);
/// The time between two attempts at an engine that is out of reach: it doubles from the first to the last of these.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Takes the lock: `None` when somebody else has it and there is no patience (left).
///
/// # Cancellation safety
/// A claim of a dropped future is withdrawn by the keeper.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    terms: &Terms,
    patience: Patience,
    deadline: Moment,
) -> Result<Option<Arc<Hold>>> {
    if client.ledger.is_closed() {
        return Err(closed(terms));
    }
    // A wait that is over before it began sends nothing.
    if client.clock.now() >= deadline {
        return Ok(None);
    }
    let mut waiter = Waiter::new(client, terms, patience);
    loop {
        let move_on = match waiter.ask(deadline).await {
            Ok(standing) => waiter.hear(standing)?,
            Err(error) => waiter.ride_out(error, deadline).await?,
        };
        let move_on = match move_on {
            MoveOn::Sleep => waiter.sleep(deadline).await?,
            other => other,
        };
        match move_on {
            MoveOn::Held => return Ok(Some(waiter.keep())),
            MoveOn::Refused => {
                waiter.leave().await;
                return Ok(None);
            }
            MoveOn::Ask | MoveOn::Sleep => {}
        }
    }
}

fn closed(terms: &Terms) -> Error {
    Error::new(Kind::Closed, "this client was closed").during("lock", Some(&terms.name))
}

/// What to do next.
enum MoveOn {
    Held,
    Refused,
    Ask,
    Sleep,
}

/// A claim on its way to a grant. Dropped before it got there, it is withdrawn by the keeper.
struct Waiter<'a> {
    client: &'a Arc<Client>,
    terms: &'a Terms,
    patience: Patience,
    hold: Option<Arc<Hold>>,
    started: Moment,
    /// The engine has answered at least once.
    reached: bool,
    failures: u32,
}

impl<'a> Waiter<'a> {
    fn new(client: &'a Arc<Client>, terms: &'a Terms, patience: Patience) -> Self {
        let started = client.clock.now();
        Self { client, terms, patience, hold: None, started, reached: false, failures: 0 }
    }

    /// The claim to ask for: the one we have, or a new one in the place of one that may have lapsed.
    ///
    /// A lapsed claim is not asked for again under its old identity: a grant that the engine pushed to its former life
    /// could still be on its way, and would then be believed.
    fn current(&mut self) -> Arc<Hold> {
        if let Some(hold) = self.hold.take_if(|hold| hold.has_lapsed()) {
            self.client.ledger.part(hold, None);
        }
        let hold = self.hold.get_or_insert_with(|| {
            let t0 = self.client.clock.now();
            let claim = self.terms.claim(self.client, self.patience);
            let hold = Arc::new(Hold::new(claim, self.client.clock, t0));
            self.client.ledger.enter(&hold, t0);
            hold
        });
        Arc::clone(hold)
    }

    /// Asks the engine once where the claim stands.
    async fn ask(&mut self, deadline: Moment) -> Result<Standing> {
        let hold = self.current();
        let clock = self.client.clock;
        let t0 = clock.now();
        // A request is not cut off in the middle when the wait is over: its outcome would be unknown.
        let limit = hold.claim.ttl.min(LONGEST_REQUEST).min(deadline.since(t0).max(LAST_ANSWER));
        hold.sending();
        // Not before: a client that is closed after this takes out what may be on its way, and one that was closed
        // before sends nothing more.
        if self.client.ledger.is_closed() {
            hold.answered(false);
            return Err(closed(self.terms));
        }
        let answer = tokio::time::timeout(limit, self.client.front.claim(&hold.claim)).await;
        let answer = answer.unwrap_or_else(|_| {
            let what = format!("no answer within {limit:?}");
            Err(Error::new(Kind::TimedOut, what).unknown().help("see whether the engine is overloaded or out of reach"))
        });
        match answer {
            Ok(standing) => {
                hold.answered(true);
                hold.confirm(t0);
                self.reached = true;
                self.client.answered(t0);
                self.failures = 0;
                Ok(standing)
            }
            Err(error) => {
                if error.may_have_happened() == crate::error::Happened::No {
                    hold.answered(false);
                }
                Err(error.engine(self.client.guarantees.engine).during("lock", Some(&self.terms.name)))
            }
        }
    }

    fn hear(&mut self, standing: Standing) -> Result<MoveOn> {
        match standing {
            Standing::Granted { token } => Ok(self.take(token)),
            Standing::Queued { .. } if self.patience == Patience::None => {
                debug_assert!(false, "a claim without patience was queued");
                Ok(MoveOn::Refused)
            }
            // An answer so late that the claim may have lapsed says nothing: a new one asks.
            Standing::Queued { .. } if self.hold.as_ref().is_some_and(|hold| hold.has_lapsed()) => Ok(MoveOn::Ask),
            Standing::Queued { .. } => Ok(MoveOn::Sleep),
            Standing::Displaced => {
                // Late copies of what we sent may still be on their way, so its identity is not used again.
                if let Some(hold) = self.hold.take() {
                    self.client.ledger.part(hold, None);
                }
                Ok(MoveOn::Ask)
            }
            Standing::Refused => {
                // Nothing was left behind, so there is nothing to withdraw.
                if let Some(hold) = self.hold.take() {
                    self.client.ledger.leave(&hold);
                }
                if self.patience == Patience::None {
                    return Ok(MoveOn::Refused);
                }
                Err(Error::new(Kind::Evicted, "an operator took this claim out of the line")
                    .engine(self.client.guarantees.engine)
                    .during("lock", Some(&self.terms.name)))
            }
        }
    }

    /// The claim is granted, unless the answer took so long that it may be somebody else's by now.
    fn take(&mut self, token: u64) -> MoveOn {
        match &self.hold {
            Some(hold) if hold.grant(token, self.terms.options.at_most) => MoveOn::Held,
            _ => MoveOn::Ask,
        }
    }

    /// An error neither grants nor refuses. Worth another try while there is time, unless trying cannot help.
    async fn ride_out(&mut self, error: Error, deadline: Moment) -> Result<MoveOn> {
        let clock = self.client.clock;
        let now = clock.now();
        let lapses = self.hold.as_ref().map_or(Moment::PAST, |hold| hold.valid_until());
        // Somebody was ahead when we last heard, and the end of the wait cut this question short: nothing failed.
        let waited = self.reached && self.failures == 0 && now < lapses;
        if waited && error.kind() == Kind::TimedOut && now >= deadline {
            return Ok(MoveOn::Refused);
        }
        let reached = self.started.max(self.client.last_answered());
        let give_up = if self.reached { lapses } else { reached + FIRST_CONTACT.min(self.terms.options.ttl) };
        let (first, last) = ASK_AGAIN;
        let again = now + first.saturating_mul(1 << self.failures.min(10)).min(last);
        if !error.is_transient() || self.patience == Patience::None || again >= give_up.min(deadline) {
            return Err(error);
        }
        tracing::debug!(%error, "asking again");
        self.failures += 1;
        clock.sleep_until(again).await;
        Ok(MoveOn::Ask)
    }

    /// Sleeps until the claim may have moved.
    async fn sleep(&mut self, deadline: Moment) -> Result<MoveOn> {
        let hold = self.current();
        let clock = self.client.clock;
        let poll = clock.now() + hold.claim.ttl / 2;
        tokio::select! {
            biased;
            moved = self.client.front.moved(&hold.claim) => match moved {
                Ok(Some(Standing::Granted { token })) => return Ok(self.pushed(&hold, token)),
                Ok(_) => {}
                Err(error) => return self.ride_out(error, deadline).await,
            },
            () = hold.lapsed.notified() => return self.lapsed(deadline).await,
            () = clock.sleep_until(poll.min(deadline)) => {}
        }
        Ok(if clock.now() >= deadline { MoveOn::Refused } else { MoveOn::Ask })
    }

    /// The engine does not know the claim any more, or an operator took it out: asked once more, it says which.
    ///
    /// A claim that it did not know is in line again by that, under an identity to which a grant may have been pushed
    /// in its former life: it is withdrawn, and another one takes its place.
    async fn lapsed(&mut self, deadline: Moment) -> Result<MoveOn> {
        let before = self.hold.as_ref().map(|hold| hold.claim.id);
        match self.ask(deadline).await {
            Ok(Standing::Queued { .. }) => {
                if let Some(hold) = self.hold.take_if(|hold| Some(hold.claim.id) == before) {
                    self.client.ledger.part(hold, None);
                }
                Ok(if self.client.clock.now() >= deadline { MoveOn::Refused } else { MoveOn::Ask })
            }
            Ok(standing) => self.hear(standing),
            Err(error) => self.ride_out(error, deadline).await,
        }
    }

    /// A grant that the engine pushed is valid from the claim's last confirmed renewal, and is renewed at once.
    fn pushed(&mut self, hold: &Hold, token: u64) -> MoveOn {
        let move_on = self.take(token);
        self.client.ledger.reconsider(hold, true);
        move_on
    }

    /// Leaves the line, so that whoever hears that the wait is over is out of it. What takes too long is the keeper's.
    async fn leave(&mut self) {
        let Some(hold) = &self.hold else { return };
        let withdrawal = tokio::time::timeout(LEAVING, self.client.front.withdraw(&hold.claim)).await;
        if matches!(withdrawal, Ok(Ok(withdrawal)) if hold.is_out(withdrawal)) {
            self.client.ledger.leave(hold);
            self.hold = None;
        }
    }

    /// The hold is the caller's from here.
    fn keep(mut self) -> Arc<Hold> {
        let hold = self.hold.take().expect("a granted claim is there");
        if self.terms.options.at_most.is_some() {
            self.client.ledger.reconsider(&hold, false);
        }
        hold
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            self.client.ledger.part(hold, None);
        }
    }
}
