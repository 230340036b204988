//! The claims of a client, and how long each is honoured while its client lives.
//!
//! ZooKeeper knows sessions and no leases: a node stays as long as its session. So a client keeps the leases of its own
//! claims, by its boot clock: a claim that nobody renewed in time is taken out of its line although the session goes
//! on. When the client itself is gone, the session's end does the same.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId, Clock, Moment};
use tokio::sync::Notify;

use crate::node::Node;

/// The claims of a client, known to both of its sides.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    state: Mutex<State>,
    /// Told when a lease ends earlier than what is slept for.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<ClaimId, Lease>,
    /// What is slept for; `None` before the first sleep.
    planned: Option<Moment>,
}

/// One claim.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    /// The node whose child it is.
    pub(crate) line: String,
    /// The session it is bound to.
    pub(crate) session: i64,
    /// Its own node; `None` as long as no answer said so.
    pub(crate) placed: Option<Placed>,
    /// A request to make it got no answer: it may have been carried out beside another.
    pub(crate) doubt: bool,
    /// An operator has ended it: it is renewed no more.
    pub(crate) evicted: bool,
    /// It is honoured until then.
    pub(crate) ends: Moment,
    claim: Claim,
}

/// A claim's own node.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) node: Node,
    /// Where it is.
    pub(crate) path: String,
    pub(crate) token: u64,
    /// As long as this is the version, nobody has changed it.
    pub(crate) version: i32,
    pub(crate) weight: u32,
}

/// What is known of a claim that is made, maybe once more.
#[derive(Debug)]
pub(crate) enum Known {
    /// Nothing: this is the first request.
    Nothing,
    /// A request was sent and not answered.
    Sent,
    /// It has its place.
    Placed(Placed),
}

impl Lease {
    /// Whether a node is this claim's.
    pub(crate) fn owns(&self, node: &Node) -> bool {
        node.is(&self.claim, self.session)
    }
}

impl Leases {
    /// A claim is about to be made in this session: what is known of it.
    pub(crate) fn enter(&self, claim: &Claim, line: &str, session: i64) -> Known {
        let mut state = self.state();
        match state.leases.get_mut(&claim.id) {
            // A node of an earlier session is nobody's hold: the session's end takes it out.
            Some(lease) if lease.session == session => {
                lease.doubt |= lease.placed.is_none();
                lease.placed.clone().map_or(Known::Sent, Known::Placed)
            }
            _ => {
                let ends = Clock::Boot.now() + claim.ttl;
                let line = line.to_owned();
                let lease =
                    Lease { line, session, placed: None, doubt: false, evicted: false, ends, claim: claim.clone() };
                state.leases.insert(claim.id, lease);
                if state.planned.is_none_or(|planned| ends < planned) {
                    self.sooner.notify_one();
                }
                Known::Nothing
            }
        }
    }

    /// The claim has its place. `false` when it was withdrawn in the meantime.
    pub(crate) fn place(&self, id: &ClaimId, session: i64, placed: Placed) -> bool {
        let mut state = self.state();
        let lease = state.leases.get_mut(id).filter(|lease| lease.session == session);
        lease.map(|lease| lease.placed = Some(placed)).is_some()
    }

    /// The servers heard of the claim: its lease begins anew, unless an operator has ended it.
    pub(crate) fn heard(&self, id: &ClaimId, ttl: Duration) {
        if let Some(lease) = self.state().leases.get_mut(id).filter(|lease| !lease.evicted) {
            lease.ends = Clock::Boot.now() + ttl;
        }
    }

    /// An operator has ended the claim: what is left of its lease is the last.
    pub(crate) fn evict(&self, id: &ClaimId) {
        if let Some(lease) = self.state().leases.get_mut(id) {
            lease.evicted = true;
        }
    }

    /// The claim, if there is such a one.
    pub(crate) fn get(&self, id: &ClaimId) -> Option<Lease> {
        self.state().leases.get(id).cloned()
    }

    /// The claim is of no concern any more.
    pub(crate) fn forget(&self, id: &ClaimId) {
        self.state().leases.remove(id);
    }

    /// The claim's node is gone, and the claim is of no concern any more, unless it has another one by now.
    pub(crate) fn gone(&self, id: &ClaimId, placed: &Placed) {
        let mut state = self.state();
        let is_it = |lease: &Lease| lease.placed.as_ref().is_some_and(|now| now.path == placed.path);
        if state.leases.get(id).is_some_and(is_it) {
            state.leases.remove(id);
        }
    }

    /// A request to make the claim was certainly not carried out. Nothing of it can be there or on its way, unless it
    /// was asked for once more.
    pub(crate) fn unmade(&self, id: &ClaimId) {
        let mut state = self.state();
        if state.leases.get(id).is_some_and(|lease| !lease.doubt && lease.placed.is_none()) {
            state.leases.remove(id);
        }
    }

    /// A session is over, and with it everything that was claimed in it.
    pub(crate) fn session_ended(&self, session: i64) {
        self.state().leases.retain(|_, lease| lease.session != session);
    }

    /// Whether there are claims in this session and the lease of each is over.
    pub(crate) fn all_over(&self, session: i64) -> bool {
        let now = Clock::Boot.now();
        let state = self.state();
        let mut leases = state.leases.values().filter(|lease| lease.session == session).peekable();
        leases.peek().is_some() && leases.all(|lease| lease.ends <= now)
    }

    /// The claims whose leases are over, as soon as there are any.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect: they are still there.
    pub(crate) async fn over(&self) -> Vec<(ClaimId, Lease)> {
        loop {
            let next = {
                let now = Clock::Boot.now();
                let mut state = self.state();
                let over = state.leases.iter().filter(|(_, lease)| lease.ends <= now);
                let over: Vec<_> = over.map(|(id, lease)| (*id, lease.clone())).collect();
                if !over.is_empty() {
                    return over;
                }
                let next = state.leases.values().map(|lease| lease.ends).min().unwrap_or(Moment::NEVER);
                state.planned = Some(next);
                next
            };
            tokio::select! {
                () = Clock::Boot.sleep_until(next) => {}
                () = self.sooner.notified() => {}
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::{Name, Owner, Patience};

    use super::*;

    fn claim(ttl: u64) -> Claim {
        Claim {
            id: ClaimId::random(),
            name: Name::new("a").unwrap(),
            owner: Owner::new("x"),
            weight: 1,
            capacity: 1,
            priority: 0,
            patience: Patience::Waits,
            ttl: Duration::from_millis(ttl),
            note: None,
            floor: 0,
            lingers: false,
        }
    }

    #[tokio::test]
    async fn a_lease_ends_unless_it_is_heard_of() {
        let (leases, short, kept) = (Leases::default(), claim(20), claim(20));
        leases.enter(&short, "/a", 1);
        leases.enter(&kept, "/a", 1);
        leases.heard(&kept.id, Duration::from_secs(60));
        let over = leases.over().await;
        assert_eq!(over.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [short.id]);
    }

    #[tokio::test]
    async fn a_short_lease_is_noticed_while_a_long_one_is_slept_for() {
        let (leases, long, short) = (Leases::default(), claim(60_000), claim(20));
        leases.enter(&long, "/a", 1);
        let enter = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            leases.enter(&short, "/a", 1);
            std::future::pending::<()>().await;
        };
        let over = tokio::select! {
            over = leases.over() => over,
            () = enter => Vec::new(),
        };
        assert_eq!(over[0].0, short.id);
    }

    #[test]
    fn what_was_evicted_is_not_kept_by_being_heard_of() {
        let (leases, claim) = (Leases::default(), claim(0));
        leases.enter(&claim, "/a", 1);
        leases.evict(&claim.id);
        leases.heard(&claim.id, Duration::from_secs(60));
        assert!(leases.all_over(1) && !leases.all_over(2));
    }

    #[test]
    fn a_claim_of_an_earlier_session_is_a_new_one() {
        let (leases, claim) = (Leases::default(), claim(1000));
        assert!(matches!(leases.enter(&claim, "/a", 1), Known::Nothing));
        assert!(matches!(leases.enter(&claim, "/a", 1), Known::Sent));
        assert!(matches!(leases.enter(&claim, "/a", 2), Known::Nothing));
        leases.session_ended(2);
        assert!(leases.get(&claim.id).is_none());
    }
}
