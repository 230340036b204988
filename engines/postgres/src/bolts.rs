//! The bolts of a client, shared by its two sides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Claim, ClaimId, Error, Kind, Moment, QuietNames};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bolt::{Asks, Bolt, Order, Phase};
use crate::error::Fault;
use crate::holding::Holding;
use crate::said::Said;
use crate::way::{Left, Turn, Way};

/// The bolts of a client. Their tasks run where it was made, and end when it is dropped: the server opens what is shut
/// then.
#[derive(Debug)]
pub(crate) struct Bolts {
    way: Arc<dyn Way>,
    runtime: Handle,
    entries: Mutex<HashMap<ClaimId, Entry>>,
    /// Claims that are being asked for, each with how often and whether it was withdrawn since.
    asked: Mutex<HashMap<ClaimId, (u32, bool)>>,
    tasks: Mutex<JoinSet<()>>,
    pub(crate) quiet_names: QuietNames,
}

#[derive(Debug, Clone)]
struct Entry {
    /// None when it is shut in advance, while the claim asks for its turn.
    token: Option<u64>,
    /// It was: nobody else seemed to want the lock then.
    in_advance: bool,
    orders: watch::Sender<Order>,
    phase: watch::Receiver<Phase>,
    trouble: Arc<Mutex<Option<String>>>,
}

/// A claim that is being asked for, until this is dropped.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    bolts: &'a Bolts,
    id: ClaimId,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asked = self.bolts.asked();
        if let Some((times, _)) = asked.get_mut(&self.id) {
            *times -= 1;
            if *times == 0 {
                asked.remove(&self.id);
            }
        }
    }
}

/// There is nothing to clear away below this.
const FEW: usize = 1024;

/// Whether a claim has its bolt shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shut {
    /// It has, and its connection answers.
    Yes,
    /// It has none, or is on the way to it: it does not hold its lock yet.
    NotYet,
    /// It had, and whether it has is not known at present.
    Unknown,
    /// Another program has the lock.
    Lost,
}

impl Bolts {
    /// No bolts yet. Called on the keeper's runtime.
    pub(crate) fn new(way: Arc<dyn Way>) -> Self {
        let (entries, asked, tasks, quiet_names) = Default::default();
        Self { way, runtime: Handle::current(), entries, asked, tasks, quiet_names }
    }

    /// Takes note that a claim is being asked for.
    pub(crate) fn asking(&self, id: ClaimId) -> Asking<'_> {
        self.asked().entry(id).or_default().0 += 1;
        Asking { bolts: self, id }
    }

    /// Whether this claim can have a bolt, beside those that there are.
    pub(crate) fn has_room(&self, id: &ClaimId) -> bool {
        self.way.has_room() || self.entries().contains_key(id)
    }

    /// The token of a claim that has its turn but for its bolt.
    pub(crate) fn pending(&self, id: &ClaimId) -> Option<u64> {
        let entries = self.entries();
        let entry = entries.get(id).filter(|entry| entry.orders.borrow().wanted)?;
        entry.token.filter(|_| matches!(*entry.phase.borrow(), Phase::Taking | Phase::Busy))
    }

    /// Shuts the bolt of a claim that has its turn, or asks for it and has no token yet, or makes sure that it is shut,
    /// within this time. `sent` is when its turn was asked for. [`Shut::NotYet`] when another program has the lock: it
    /// goes on trying then. [`Shut::Lost`] also for a claim that was withdrawn since it was asked for.
    ///
    /// # Cancellation safety
    /// It goes on, until it is opened or the claim's lease is over.
    pub(crate) async fn shut(
        &self,
        claim: &Claim,
        token: Option<u64>,
        sent: Moment,
        limit: Duration,
    ) -> Result<Shut, Fault> {
        let Some((entry, was_held)) = self.enter(claim, token, sent) else { return Ok(Shut::Lost) };
        let shared = entry.orders.borrow().shared;
        let mut phase = entry.phase.clone();
        let settled = phase.wait_for(|phase| match phase {
            Phase::Taking | Phase::Broken => false,
            Phase::Held { shared: now, .. } => *now == shared,
            Phase::Busy | Phase::Lost | Phase::Open(_) => true,
        });
        let settled = match timeout(limit, settled).await {
            Ok(Ok(settled)) => settled.clone(),
            Ok(Err(_)) => return Err(Error::new(Kind::Closed, "this client was closed").unknown().into()),
            Err(_) => {
                let trouble = entry.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
                return Err(Fault::Unheld(limit, trouble));
            }
        };
        match settled {
            // What was asked just now was answered just now.
            Phase::Held { link, .. } if was_held && !link.answers(limit).await => Err(Fault::Silence(limit)),
            Phase::Held { .. } => Ok(Shut::Yes),
            Phase::Lost => Ok(Shut::Lost),
            _ => Ok(Shut::NotYet),
        }
    }

    /// Has a claim take its turn and shut its bolt by one request, if nothing else is held by the connection on which
    /// that waits for the disk: its turn. `None` when it has none by this, whatever the reason.
    ///
    /// # Cancellation safety
    /// It goes on, until the bolt is opened or the claim's lease is over.
    pub(crate) async fn enter_alone(
        &self,
        claim: &Claim,
        said: Said,
        sent: Moment,
        limit: Duration,
    ) -> Result<Option<Turn>, Fault> {
        let (told, turn) = oneshot::channel();
        {
            let mut entries = self.entries();
            let is_over = |entry: &Entry| matches!(*entry.phase.borrow(), Phase::Open(_) | Phase::Lost);
            if self.was_withdrawn(&claim.id) || !entries.values().all(is_over) {
                return Ok(None);
            }
            self.begin(&mut entries, claim, None, sent, Some(Asks { said, told }));
        }
        timeout(limit, turn).await.map(Result::ok).map_err(|_| Fault::Silence(limit))
    }

    /// Resolves when a bolt that was not shut yet may be.
    pub(crate) async fn until_shut(&self, id: &ClaimId) -> Shut {
        let entry = self.entries().get(id).cloned();
        let Some(Entry { mut phase, .. }) = entry else { return Shut::NotYet };
        match phase.wait_for(|phase| !matches!(phase, Phase::Taking | Phase::Busy)).await.as_deref() {
            Ok(Phase::Held { .. }) => Shut::Yes,
            _ => Shut::Unknown,
        }
    }

    /// Whether these claims have their bolts shut, asked of their connections within this time: one answer for each.
    pub(crate) async fn confirm(&self, claims: &[Claim], limit: Duration) -> Vec<Shut> {
        let phases: Vec<Option<Phase>> = {
            let entries = self.entries();
            let turn = |claim: &Claim| entries.get(&claim.id).filter(|entry| entry.token.is_some());
            claims.iter().map(|claim| turn(claim).map(|entry| entry.phase.borrow().clone())).collect()
        };
        let mut links: HashMap<&str, &Holding> = HashMap::new();
        for phase in phases.iter().flatten() {
            if let Phase::Held { link, .. } = phase {
                links.insert(link.label(), link);
            }
        }
        let answers = links.into_values().map(async |link| (link.label(), link.answers(limit).await));
        let answers: HashMap<&str, bool> = join_all(answers).await.into_iter().collect();
        let shut = phases.iter().map(|phase| match phase {
            Some(Phase::Held { link, .. }) if answers.get(link.label()) == Some(&true) => Shut::Yes,
            Some(Phase::Held { .. } | Phase::Broken) => Shut::Unknown,
            Some(Phase::Lost) => Shut::Lost,
            Some(Phase::Taking | Phase::Busy | Phase::Open(_)) | None => Shut::NotYet,
        });
        shut.collect()
    }

    /// The claim is honoured until then.
    pub(crate) fn extend(&self, id: &ClaimId, until: Moment) {
        if let Some(entry) = self.entries().get(id) {
            entry.orders.send_modify(|order| order.until = order.until.max(until));
        }
    }

    /// Has the bolt of a claim opened, if it has one, within this time. If it was shut in advance nobody else was
    /// there: then the claim leaves its line by the same request if it is still alone, which the answer says.
    ///
    /// # Cancellation safety
    /// It is opened all the same.
    pub(crate) async fn open(&self, id: &ClaimId, limit: Duration) -> Result<Option<Left>, Fault> {
        if let Some((_, withdrawn)) = self.asked().get_mut(id) {
            *withdrawn = true;
        }
        let entry = self.entries().remove(id);
        let Some(Entry { orders, phase, in_advance, .. }) = entry else { return Ok(None) };
        let leaves = in_advance && matches!(*phase.borrow(), Phase::Held { shared: false, .. });
        orders.send_modify(|order| (order.wanted, order.leaves) = (false, leaves));
        until_open(phase, limit).await
    }

    /// The claim has its turn: whether its bolt is shut, as one that was shut in advance may be.
    pub(crate) fn is_held(&self, claim: &Claim, token: u64, sent: Moment) -> bool {
        self.enter(claim, Some(token), sent).is_some_and(|(_, was_held)| was_held)
    }

    /// Has the bolt of a claim opened that was shut in advance, unless the claim has got its turn by now: what tells
    /// when it is open.
    pub(crate) fn forgo(&self, claim: &Claim) -> Option<watch::Receiver<Phase>> {
        let mut entries = self.entries();
        entries.get(&claim.id).filter(|entry| entry.token.is_none())?;
        let Entry { orders, phase, .. } = entries.remove(&claim.id)?;
        orders.send_modify(|order| order.wanted = false);
        Some(phase)
    }

    /// The bolt of this claim, and whether it was shut before. None for a claim that was withdrawn: whoever opened its
    /// bolt has said so before it looked for one, so that one of both always sees the other.
    fn enter(&self, claim: &Claim, token: Option<u64>, sent: Moment) -> Option<(Entry, bool)> {
        let mut entries = self.entries();
        if self.was_withdrawn(&claim.id) {
            return None;
        }
        let known = entries.get_mut(&claim.id).filter(|entry| !matches!(*entry.phase.borrow(), Phase::Open(_)));
        if let Some(entry) = known {
            entry.token = entry.token.max(token);
            entry.orders.send_if_modified(|order| {
                let new = Order::new(claim, sent);
                let now = Order { shared: new.shared, until: order.until.max(new.until), ..*order };
                // Its task is on another thread, and is not woken for nothing.
                std::mem::replace(order, now) != now
            });
            let was_held = matches!(*entry.phase.borrow(), Phase::Held { .. });
            return Some((entry.clone(), was_held));
        }
        Some((self.begin(&mut entries, claim, token, sent, None), false))
    }

    /// A new bolt for this claim.
    fn begin(
        &self,
        entries: &mut HashMap<ClaimId, Entry>,
        claim: &Claim,
        token: Option<u64>,
        sent: Moment,
        asks: Option<Asks>,
    ) -> Entry {
        let (orders, ordered) = watch::channel(Order::new(claim, sent));
        let (phase, seen) = watch::channel(Phase::Taking);
        let trouble = Arc::default();
        let entry = Entry { token, in_advance: token.is_none(), orders, phase: seen, trouble: Arc::clone(&trouble) };
        if entries.len() >= FEW && entries.len().is_power_of_two() {
            // Nobody asked for them again after their leases were over.
            entries.retain(|_, entry| !matches!(*entry.phase.borrow(), Phase::Open(_)));
        }
        entries.insert(claim.id, entry.clone());
        let (name, way) = (claim.name.clone(), Arc::clone(&self.way));
        let bolt = Bolt { id: claim.id, name, way, orders: ordered, phase, trouble };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(bolt.live(asks), &self.runtime);
        entry
    }

    fn was_withdrawn(&self, id: &ClaimId) -> bool {
        self.asked().get(id).is_some_and(|(_, withdrawn)| *withdrawn)
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<ClaimId, (u32, bool)>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<ClaimId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a bolt that is not wanted any more.
pub(crate) async fn until_open(mut phase: watch::Receiver<Phase>, limit: Duration) -> Result<Option<Left>, Fault> {
    match timeout(limit, phase.wait_for(|phase| matches!(phase, Phase::Open(_) | Phase::Lost))).await {
        Ok(Ok(phase)) => Ok(match *phase {
            Phase::Open(left) => left,
            _ => None,
        }),
        // The task is over when its runtime is, and with that the connection.
        Ok(Err(_)) => Ok(None),
        Err(_) => Err(Fault::Silence(limit)),
    }
}
