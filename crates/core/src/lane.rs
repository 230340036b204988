//! One line in memory: holders, waiters in order, and their leases.
//!
//! A grant costs the same whatever the number of waiters: the sum of what is held is kept, and the next in line is the
//! first of an ordered map.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::Notify;

use crate::claim::{Claim, ClaimId, Patience, PublicId};
use crate::clock::Moment;
use crate::engine::{Renewal, Standing, Withdrawal};
use crate::error::{Error, Kind, Result};
use crate::line::Room;
use crate::name::Name;
use crate::survey::{Line, Place};

/// Waiters in order: the higher priority first, then first come, first served.
type Order = (Reverse<i32>, u64);

#[derive(Debug, Default)]
pub(crate) struct Lane {
    capacity: u32,
    /// The weights of the holders together.
    held: u64,
    spots: HashMap<ClaimId, Spot>,
    waiters: BTreeMap<Order, ClaimId>,
    leases: BTreeSet<(Moment, ClaimId)>,
    arrivals: u64,
}

#[derive(Debug)]
struct Spot {
    claim: Claim,
    stands: Stands,
    since: Moment,
    lease_end: Moment,
    evicted: bool,
    woken: Arc<Notify>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Holding(u64),
    Waiting(Order),
    /// Evicted while it waited: it counts no more, and is remembered until its lease is over so that it can be told.
    Aside,
}

impl Lane {
    /// Nobody is in it, and nothing is remembered of anybody.
    pub(crate) fn is_deserted(&self) -> bool {
        self.spots.is_empty()
    }

    /// Takes out every claim whose lease is over.
    pub(crate) fn sweep(&mut self, now: Moment, tokens: &mut u64) {
        let mut swept = false;
        while let Some(&(_, id)) = self.leases.first().filter(|(end, _)| *end <= now) {
            self.remove(&id);
            swept = true;
        }
        if swept {
            self.admit(tokens, now);
        }
    }

    pub(crate) fn claim(&mut self, claim: &Claim, now: Moment, tokens: &mut u64) -> Result<Standing> {
        if (self.held > 0 || !self.waiters.is_empty()) && self.capacity != claim.capacity {
            let what = format!("the name is in use with capacity {}, not {}", self.capacity, claim.capacity);
            let help = "use one kind of lock, and one number of permits, for a name";
            return Err(Error::new(Kind::Conflict, what).help(help));
        }
        if self.spots.contains_key(&claim.id) {
            self.claim_again(claim, now, tokens)?;
        } else if !self.join(claim, now, tokens) {
            return Ok(Standing::Refused);
        }
        Ok(self.standing(&claim.id).unwrap_or(Standing::Refused))
    }

    /// A claim that is here: its lease is renewed, and it may weigh less than before.
    fn claim_again(&mut self, claim: &Claim, now: Moment, tokens: &mut u64) -> Result<()> {
        self.renew(claim, now);
        let Some(spot) = self.spots.get_mut(&claim.id) else { return Ok(()) };
        let less = spot.claim.weight.checked_sub(claim.weight).ok_or_else(|| {
            Error::new(Kind::Invalid, "a claim cannot be made larger").help("release it and claim again")
        })?;
        spot.claim.weight = claim.weight;
        if let Stands::Holding(token) = &mut spot.stands {
            *token = (*token).max(claim.floor);
            *tokens = (*tokens).max(claim.floor);
            self.held -= u64::from(less);
        }
        self.admit(tokens, now);
        Ok(())
    }

    /// A newcomer. `false` when it has no patience and somebody is ahead.
    fn join(&mut self, claim: &Claim, now: Moment, tokens: &mut u64) -> bool {
        self.capacity = claim.capacity;
        let order = (Reverse(claim.priority), self.arrivals);
        let goes_first = self.waiters.first_key_value().is_none_or(|(first, _)| order < *first);
        let may_enter = goes_first || claim.patience == Patience::Barges;
        let stands = if may_enter && Room::beside(self.capacity, self.held).admit(claim.weight) {
            self.held += u64::from(claim.weight);
            Stands::Holding(next_token(tokens, claim.floor))
        } else if claim.patience == Patience::None {
            return false;
        } else {
            Stands::Waiting(order)
        };
        self.arrivals += 1;
        if stands == Stands::Waiting(order) {
            self.waiters.insert(order, claim.id);
        }
        let lease_end = now + claim.ttl;
        self.leases.insert((lease_end, claim.id));
        let woken = Arc::new(Notify::new());
        let spot = Spot { claim: claim.clone(), stands, since: now, lease_end, evicted: false, woken };
        self.spots.insert(claim.id, spot);
        true
    }

    /// Lets in whoever fits, in order.
    pub(crate) fn admit(&mut self, tokens: &mut u64, now: Moment) {
        while let Some(first) = self.waiters.first_entry() {
            let Some(spot) = self.spots.get_mut(first.get()) else { break };
            if !Room::beside(self.capacity, self.held).admit(spot.claim.weight) {
                break;
            }
            first.remove();
            self.held += u64::from(spot.claim.weight);
            spot.stands = Stands::Holding(next_token(tokens, spot.claim.floor));
            spot.since = now;
            spot.woken.notify_one();
        }
    }

    pub(crate) fn standing(&self, id: &ClaimId) -> Option<Standing> {
        Some(match self.spots.get(id)?.stands {
            Stands::Holding(token) => Standing::Granted { token },
            Stands::Waiting(order) => {
                let holders = self.spots.values().filter(|spot| matches!(spot.stands, Stands::Holding(_))).count();
                let ahead = holders + self.waiters.range(..order).count();
                Standing::Queued { ahead: u32::try_from(ahead).unwrap_or(u32::MAX) }
            }
            Stands::Aside => Standing::Refused,
        })
    }

    /// What wakes a waiter, and when the next lease ends. `None` when it need not sleep.
    pub(crate) fn watch(&self, id: &ClaimId) -> Option<(Arc<Notify>, Moment)> {
        let spot = self.spots.get(id).filter(|spot| matches!(spot.stands, Stands::Waiting(_)))?;
        let next_expiry = self.leases.first().map_or(Moment::NEVER, |(end, _)| *end);
        Some((Arc::clone(&spot.woken), next_expiry))
    }

    pub(crate) fn renew(&mut self, claim: &Claim, now: Moment) -> Renewal {
        let Some(spot) = self.spots.get_mut(&claim.id).filter(|spot| !spot.evicted) else { return Renewal::Gone };
        if !spot.claim.lingers {
            spot.claim.lingers = claim.lingers;
            self.leases.remove(&(spot.lease_end, claim.id));
            spot.lease_end = now + claim.ttl;
            self.leases.insert((spot.lease_end, claim.id));
        }
        Renewal::Renewed
    }

    pub(crate) fn remove(&mut self, id: &ClaimId) -> Withdrawal {
        let Some(spot) = self.spots.remove(id) else { return Withdrawal::NotThere };
        self.leases.remove(&(spot.lease_end, *id));
        match spot.stands {
            Stands::Holding(_) => self.held -= u64::from(spot.claim.weight),
            Stands::Waiting(order) => drop(self.waiters.remove(&order)),
            Stands::Aside => {}
        }
        spot.woken.notify_one();
        Withdrawal::Withdrawn
    }

    pub(crate) fn evict(&mut self, public: &PublicId) -> bool {
        let Some(spot) = self.spots.values_mut().find(|spot| spot.claim.id.public() == *public) else { return false };
        spot.evicted = true;
        if let Stands::Waiting(order) = spot.stands {
            self.waiters.remove(&order);
            spot.stands = Stands::Aside;
            spot.woken.notify_one();
        }
        true
    }

    /// The line for people; `None` when nobody counts in it.
    pub(crate) fn survey(&self, name: &Name, now: Moment) -> Option<Line> {
        let mut spots: Vec<&Spot> = self.spots.values().filter(|spot| spot.stands != Stands::Aside).collect();
        spots.sort_by_key(|spot| match spot.stands {
            Stands::Holding(token) => (0, token, (Reverse(0), 0)),
            Stands::Waiting(order) => (1, 0, order),
            Stands::Aside => (2, 0, (Reverse(0), 0)),
        });
        let places: Vec<Place> = spots.into_iter().map(|spot| spot.place(now)).collect();
        (!places.is_empty()).then(|| Line { name: name.clone(), capacity: self.capacity, places })
    }
}

impl Spot {
    fn place(&self, now: Moment) -> Place {
        Place {
            id: self.claim.id.public(),
            owner: self.claim.owner.label().to_owned(),
            weight: self.claim.weight,
            priority: self.claim.priority,
            token: if let Stands::Holding(token) = self.stands { Some(token) } else { None },
            since: now.since(self.since),
            lease_left: self.lease_end.since(now),
            note: self.claim.note.as_deref().map(str::to_owned),
            evicted: self.evicted,
        }
    }
}

/// The token of a new grant.
fn next_token(tokens: &mut u64, floor: u64) -> u64 {
    *tokens = (*tokens + 1).max(floor);
    *tokens
}
