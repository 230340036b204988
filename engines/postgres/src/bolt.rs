//! What keeps other programs out while a claim has its lock: one bolt, from before it is shut until it is open again.
//!
//! The line in the tables decides which of our claims has a lock, and its lease ends it. The bolt is for everybody
//! else: an advisory lock or a locked row. Each has a task of its own on the keeper's runtime, so that a request which
//! is dropped or a runtime which is blocked leaves no bolt that nobody knows of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId, Clock, Moment, Name};
use rand::Rng;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use crate::error::{Fault, reason};
use crate::holding::Holding;
use crate::links::Grip;
use crate::said::Said;
use crate::way::{Left, Turn, Way};

/// Between two tries while another program has the lock: twice as long each time, from the first to the last of these,
/// and of a random length. The first few are for one of ours that is just letting go.
const AGAIN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// After so many tries it waits in the database, if there is a connection for that.
const TRIES: u32 = 4;
/// A bolt whose connection broke is shut again by another one if that works within so many tries.
const TRIES_AGAIN: u32 = 8;

/// What is wanted of a bolt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// It is to be shut, or to be opened.
    pub(crate) wanted: bool,
    /// Its claim leaves the line with it when it is opened.
    pub(crate) leaves: bool,
    /// It lets others in who share it.
    pub(crate) shared: bool,
    /// Nobody believes in it any more from then on: it is opened.
    pub(crate) until: Moment,
}

impl Order {
    /// To shut the bolt of a claim that was sent then.
    pub(crate) fn new(claim: &Claim, sent: Moment) -> Self {
        Self { wanted: true, leaves: false, shared: claim.weight < claim.capacity, until: sent + claim.ttl }
    }
}

/// How a bolt is.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// On the way to its first answer.
    Taking,
    /// Another program has the lock. It goes on trying.
    Busy,
    /// Shut, by this connection.
    Held { link: Arc<Holding>, shared: bool },
    /// It was shut, its connection broke, and another one is on the way to shut it again.
    Broken,
    /// Another program has the lock that was ours.
    Lost,
    /// Open again, and with it the claim may have left its line.
    Open(Option<Left>),
}

/// One bolt.
pub(crate) struct Bolt {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    pub(crate) way: Arc<dyn Way>,
    pub(crate) orders: watch::Receiver<Order>,
    pub(crate) phase: watch::Sender<Phase>,
    /// What stood in the way last.
    pub(crate) trouble: Arc<Mutex<Option<String>>>,
}

/// A claim that asks for its turn together with its bolt.
#[derive(Debug)]
pub(crate) struct Asks {
    pub(crate) said: Said,
    /// Told of its turn. Dropped when it has none.
    pub(crate) told: oneshot::Sender<Turn>,
}

/// Why a bolt is not held on to.
enum End {
    Unwanted,
    Broken,
    Lost,
}

impl Bolt {
    /// Shuts the bolt, keeps it shut as long as it is wanted, and opens it. For a claim that asks for its turn both are
    /// done by one request if they can be. If not, the bolt is shut by itself, since its claim asks again.
    pub(crate) async fn live(mut self, asks: Option<Asks>) {
        let entered = match asks {
            Some(asks) => self.enter(asks).await,
            None => None,
        };
        let mut left = None;
        let mut next = match entered {
            Some(grip) => Some(grip),
            None => self.take(None).await,
        };
        while let Some(grip) = next.take() {
            let mut shared = self.order().shared;
            self.phase.send_replace(Phase::Held { link: Arc::clone(&grip.link), shared });
            match self.hold(&grip, &mut shared).await {
                End::Unwanted => {
                    let leaves = self.order().leaves.then_some(self.id);
                    left = self.way.give(grip, &self.name, shared, leaves).await.unwrap_or_else(|fault| {
                        // The server opens it when it notices.
                        tracing::debug!(?fault, name = %self.name, "the connection broke that held a lock");
                        None
                    });
                    break;
                }
                End::Broken => {
                    self.phase.send_replace(Phase::Broken);
                    next = self.take(Some(grip)).await;
                }
                End::Lost => {
                    self.phase.send_replace(Phase::Lost);
                    return;
                }
            }
        }
        if !matches!(*self.phase.borrow(), Phase::Lost) {
            self.phase.send_replace(Phase::Open(left));
        }
    }

    /// Whoever is told of its turn finds the bolt shut.
    async fn enter(&self, asks: Asks) -> Option<Grip> {
        match self.way.enter(&asks.said).await {
            Ok(Some((grip, turn))) => {
                self.phase.send_replace(Phase::Held { link: Arc::clone(&grip.link), shared: false });
                // Nobody waits for it any more if the request was dropped: then it is not wanted either.
                let _ = asks.told.send(turn);
                return Some(grip);
            }
            Ok(None) => {}
            Err(fault) => tracing::debug!(?fault, name = %self.name, "a claim has to take its turn by itself"),
        }
        None
    }

    /// Shuts the bolt; `None` when it is not wanted any more, or is lost. `broken` is what it was shut by before.
    async fn take(&mut self, broken: Option<Grip>) -> Option<Grip> {
        let again = broken.is_some();
        let mut ghost = broken.map(|grip| Arc::clone(&grip.link));
        let (mut tries, mut pause) = (0, AGAIN.0);
        while self.is_wanted() {
            match self.try_once(&mut ghost).await {
                Ok(Some(grip)) => return Some(grip),
                Ok(None) => {
                    tries += 1;
                    if again && tries >= TRIES_AGAIN {
                        self.phase.send_replace(Phase::Lost);
                        return None;
                    } else if !again {
                        self.phase.send_replace(Phase::Busy);
                    }
                }
                Err(fault) => {
                    tracing::debug!(?fault, name = %self.name, "trying again to hold a lock");
                    *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason(&fault));
                }
            }
            if !again
                && tries >= TRIES
                && let Some(grip) = self.wait().await
            {
                return Some(grip);
            }
            let jitter = rand::rng().random_range(0.5..1.5);
            self.pause(pause.mul_f64(jitter)).await;
            pause = (pause * 2).min(AGAIN.1);
        }
        None
    }

    /// Tries to take the lock, when the connection that held it before is known to be gone.
    ///
    /// Never dropped in the middle: it would not be known whether it was taken.
    async fn try_once(&self, ghost: &mut Option<Arc<Holding>>) -> Result<Option<Grip>, Fault> {
        if let Some(link) = ghost.as_ref() {
            self.way.end(link).await?;
            *ghost = None;
        }
        self.way.take(&self.name, self.order().shared).await
    }

    /// Waits in the database for a while.
    async fn wait(&mut self) -> Option<Grip> {
        let (name, way, shared) = (self.name.clone(), Arc::clone(&self.way), self.order().shared);
        let waited = tokio::select! {
            biased;
            () = self.unwanted() => return None,
            waited = way.wait(&name, shared) => waited,
        };
        match waited {
            // Its answer may be as old as the wait was long.
            Ok(Some(grip)) if grip.link.answers(Duration::MAX).await => Some(grip),
            Ok(_) => None,
            Err(fault) => {
                tracing::debug!(?fault, %name, "waiting again for a lock");
                None
            }
        }
    }

    /// Keeps the bolt shut.
    async fn hold(&mut self, grip: &Grip, shared: &mut bool) -> End {
        loop {
            let order = *self.orders.borrow_and_update();
            if !self.is_wanted() {
                return End::Unwanted;
            }
            if order.shared && !*shared {
                match self.way.weaken(grip, &self.name).await {
                    Ok(true) => *shared = true,
                    Ok(false) => return End::Lost,
                    Err(_) => return End::Broken,
                }
                self.phase.send_replace(Phase::Held { link: Arc::clone(&grip.link), shared: true });
            }
            tokio::select! {
                changed = self.orders.changed() => if changed.is_err() { return End::Unwanted },
                () = Clock::Boot.sleep_until(order.until) => {}
                () = grip.link.broken() => return End::Broken,
            }
        }
    }

    fn order(&self) -> Order {
        *self.orders.borrow()
    }

    /// Whether anybody still believes in it, or will.
    fn is_wanted(&self) -> bool {
        let order = self.order();
        order.wanted && Clock::Boot.now() < order.until && self.orders.has_changed().is_ok()
    }

    async fn unwanted(&mut self) {
        while self.is_wanted() {
            let until = self.orders.borrow_and_update().until;
            tokio::select! {
                changed = self.orders.changed() => if changed.is_err() { return },
                () = Clock::Boot.sleep_until(until) => {}
            }
        }
    }

    async fn pause(&mut self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.unwanted() => {}
        }
    }
}
