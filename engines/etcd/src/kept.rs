//! What both sides of a client know together: its leases, and the claims that are bound to them.
//!
//! etcd keeps every key that ever was in its index until its history is compacted, and reads through all of them when
//! it looks at a line. So the claims of a client on a name use the same few keys again, its seats. A seat can be used
//! again when nothing is on its way any more that could write to it or delete it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId, Clock, Moment, Name};

/// Past its lease by this much, a claim that nobody renews is taken out by its own client.
const OVERDUE: Duration = Duration::from_secs(1);
/// The seats of so many names are remembered.
const NAMES: usize = 4_096;

/// What both sides of a client know together. Nobody waits while it is locked.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    leases: HashMap<i64, Lease>,
    /// The lease for new claims, by its length in seconds.
    current: HashMap<i64, i64>,
    claims: HashMap<ClaimId, Spot>,
    /// Seats that nobody has.
    seats: HashMap<Name, Vec<ClaimId>>,
    /// Names in whose line others were, when it was last looked at.
    busy: HashSet<Name>,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    /// Lives at least until then.
    lives_until: Moment,
    /// The term of the leader that said so.
    term: u64,
    length: Duration,
    /// When its keys were last compared with the claims here.
    swept: Moment,
}

/// A claim that may be in etcd.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    /// The lease it is bound to.
    pub(crate) lease: i64,
    /// What its key is called after.
    pub(crate) seat: ClaimId,
    /// Its key's create revision, once that is known.
    pub(crate) made: Option<i64>,
    /// So many requests to make its key got no answer: they may still be carried out.
    pub(crate) unanswered: u32,
    /// It is being withdrawn: nothing more is sent that makes its key.
    parting: bool,
    /// Whose leaving it waits for.
    pub(crate) behind: Option<Behind>,
    /// Out of the line if it is not heard of by then.
    due: Moment,
}

/// Whose leaving a claim waits for.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    pub(crate) keys: Vec<Vec<u8>>,
    /// The revision at which they were there.
    pub(crate) revision: i64,
}

impl Kept {
    /// The lease for new claims of this length, if it still lives.
    pub(crate) fn current(&self, seconds: i64) -> Option<i64> {
        let inner = self.inner();
        let id = *inner.current.get(&seconds)?;
        inner.leases.get(&id).filter(|lease| lease.lives_until > Clock::Boot.now()).map(|_| id)
    }

    /// A new lease, asked for at a moment. It is the one for new claims from now on.
    pub(crate) fn begin(&self, seconds: i64, id: i64, sent: Moment, length: Duration, term: u64) {
        let mut inner = self.inner();
        let now = Clock::Boot.now();
        inner.leases.retain(|_, lease| lease.lives_until > now);
        inner.claims.retain(|_, spot| spot.due > now);
        inner.leases.insert(id, Lease { lives_until: sent + length, term, length, swept: sent });
        inner.current.insert(seconds, id);
    }

    /// A lease was kept alive by a request sent at that moment.
    pub(crate) fn confirm(&self, id: i64, sent: Moment, length: Duration, term: u64) {
        let mut inner = self.inner();
        let lease = inner.leases.entry(id).or_insert(Lease { lives_until: sent, term, length, swept: sent });
        if sent + length > lease.lives_until || term > lease.term {
            (lease.lives_until, lease.term) = (sent + length, term);
        }
    }

    /// Another leader than the one that promised it is in office: it must say so itself.
    pub(crate) fn doubt(&self, id: i64) {
        if let Some(lease) = self.inner().leases.get_mut(&id) {
            lease.lives_until = Clock::Boot.now();
        }
    }

    /// There is no such lease any more.
    pub(crate) fn end(&self, id: i64) {
        let mut inner = self.inner();
        inner.leases.remove(&id);
        inner.current.retain(|_, current| *current != id);
    }

    /// The term of the leader that promised that a lease lives until then, if one did.
    pub(crate) fn covers(&self, id: i64, until: Moment) -> Option<u64> {
        self.inner().leases.get(&id).filter(|lease| lease.lives_until >= until).map(|lease| lease.term)
    }

    /// Whether it is time to compare the keys of a lease with the claims here. Says so once a lease.
    pub(crate) fn is_to_be_swept(&self, id: i64) -> bool {
        let now = Clock::Boot.now();
        let mut inner = self.inner();
        let Some(lease) = inner.leases.get_mut(&id) else { return false };
        let due = now >= lease.swept + lease.length;
        if due {
            lease.swept = now;
        }
        due
    }

    /// Notes before anything is sent that a claim may be in etcd.
    pub(crate) fn enter(&self, claim: &Claim, lease: i64) {
        let due = Clock::Boot.now() + claim.ttl + OVERDUE;
        let mut inner = self.inner();
        let Inner { claims, seats, .. } = &mut *inner;
        let spot = claims.entry(claim.id).or_insert_with(|| {
            let seat = seats.get_mut(&claim.name).and_then(Vec::pop).unwrap_or_else(ClaimId::random);
            Spot { lease, seat, made: None, unanswered: 0, parting: false, behind: None, due }
        });
        (spot.lease, spot.due) = (lease, due);
    }

    /// A request is about to be sent that makes the claim's key. `false` when it is withdrawn meanwhile.
    pub(crate) fn sending(&self, id: &ClaimId) -> bool {
        let mut inner = self.inner();
        let spot = inner.claims.get_mut(id).filter(|spot| !spot.parting);
        spot.map(|spot| spot.unanswered += 1).is_some()
    }

    /// The claim is about to be withdrawn. What was sent for it by now is counted, and nothing more will be.
    pub(crate) fn parting(&self, id: &ClaimId) -> Option<Spot> {
        let mut inner = self.inner();
        let spot = inner.claims.get_mut(id)?;
        spot.parting = true;
        Some(spot.clone())
    }

    /// It was answered, or certainly not carried out. Who withdrew the claim before could not know, and has deleted its
    /// key whatever it was: such a deletion may come late, so the seat stays as it was counted then.
    pub(crate) fn answered(&self, id: &ClaimId) {
        if let Some(spot) = self.inner().claims.get_mut(id).filter(|spot| !spot.parting) {
            spot.unanswered = spot.unanswered.saturating_sub(1);
        }
    }

    /// A claim was renewed.
    pub(crate) fn renewed(&self, claim: &Claim) {
        if let Some(spot) = self.inner().claims.get_mut(&claim.id) {
            spot.due = Clock::Boot.now() + claim.ttl + OVERDUE;
        }
    }

    /// A claim's key was made at this revision.
    pub(crate) fn made(&self, id: &ClaimId, revision: Option<i64>) {
        if let Some(spot) = self.inner().claims.get_mut(id) {
            spot.made = revision;
        }
    }

    /// A claim waits until one of these leaves.
    pub(crate) fn waits(&self, id: &ClaimId, behind: Behind) {
        if let Some(spot) = self.inner().claims.get_mut(id) {
            spot.behind = Some(behind);
        }
    }

    /// Whose leaving a claim waits for. Told once: who asks again looks at the line again.
    pub(crate) fn behind(&self, id: &ClaimId) -> Option<Behind> {
        self.inner().claims.get_mut(id)?.behind.take()
    }

    /// What is known of a claim.
    pub(crate) fn spot(&self, id: &ClaimId) -> Option<Spot> {
        self.inner().claims.get(id).cloned()
    }

    /// A claim is not in etcd any more, or not bound to this client.
    pub(crate) fn leave(&self, id: &ClaimId) {
        self.inner().claims.remove(id);
    }

    /// A claim that was withdrawn is not in etcd any more, unless it was sent once more meanwhile.
    pub(crate) fn parted(&self, id: &ClaimId) {
        let mut inner = self.inner();
        if inner.claims.get(id).is_some_and(|spot| spot.parting) {
            inner.claims.remove(id);
        }
    }

    /// Whether others are probably in the line of a name.
    pub(crate) fn is_busy(&self, name: &Name) -> bool {
        self.inner().busy.contains(name)
    }

    /// Others were in the line of a name, or nobody.
    pub(crate) fn busy(&self, name: &Name, busy: bool) {
        let mut inner = self.inner();
        if !busy {
            inner.busy.remove(name);
        } else if !inner.busy.contains(name) {
            if inner.busy.len() > NAMES {
                inner.busy.clear();
            }
            inner.busy.insert(name.clone());
        }
    }

    /// A claim's key was deleted, or never made: its seat is free. Where something may still be done to it, nobody else
    /// gets it, and it is known a while longer where the claim would be.
    pub(crate) fn vacate(&self, claim: &Claim) {
        let mut inner = self.inner();
        if inner.claims.get(&claim.id).is_none_or(|spot| spot.unanswered > 0) {
            return;
        }
        let Some(spot) = inner.claims.remove(&claim.id) else { return };
        if inner.seats.len() > NAMES {
            inner.seats.clear();
        }
        inner.seats.entry(claim.name.clone()).or_default().push(spot.seat);
    }

    /// Which of these seats must not be in etcd by our will. A claim that nobody renewed is forgotten, and a seat that
    /// is not wanted is used no more.
    pub(crate) fn unwanted(&self, bound: Vec<(Name, ClaimId)>) -> Vec<(Name, ClaimId)> {
        let now = Clock::Boot.now();
        let mut inner = self.inner();
        inner.claims.retain(|_, spot| spot.due > now);
        let wanted: HashSet<ClaimId> = inner.claims.values().map(|spot| spot.seat).collect();
        let unwanted: Vec<_> = bound.into_iter().filter(|(_, seat)| !wanted.contains(seat)).collect();
        for (name, seat) in &unwanted {
            if let Some(seats) = inner.seats.get_mut(name) {
                seats.retain(|free| free != seat);
            }
        }
        unwanted
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
