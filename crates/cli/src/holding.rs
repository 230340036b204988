//! The locks of one `run`: taken in order, held together, given back together.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::pending;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use lockhouse::{Clock, Error, Guard, Kind, Locks, Loss, Moment, Name, Owner, Release, line::kind};

use crate::complaint::Outcome;
use crate::inherited::Inherited;

/// What is wanted of every name.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// In their own order, so that two that want the same names never wait for each other.
    pub(crate) names: BTreeSet<Name>,
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
    /// How long to wait: for ever, or not at all when it is zero.
    pub(crate) wait: Option<Duration>,
    pub(crate) ttl: Duration,
    pub(crate) at_least: Option<Duration>,
    pub(crate) at_most: Option<Duration>,
    pub(crate) priority: i32,
    pub(crate) owner: Owner,
    pub(crate) note: Option<String>,
    /// The name that is being waited for, for the display.
    pub(crate) waiting_for: RefCell<Option<Name>>,
}

/// Locks that are held together.
#[derive(Debug)]
pub(crate) struct Holding {
    locks: Locks,
    ttl: Duration,
    guards: Vec<(Guard, Inherited)>,
    /// What is held further up, with its token.
    borrowed: Vec<(Inherited, u64)>,
}

/// Gives a lock of any kind the same terms: the kinds have the same methods and no common type.
macro_rules! on_terms {
    ($lock:expr, $wanted:expr, $left:expr) => {{
        let mut lock = $lock.ttl($wanted.ttl).priority($wanted.priority).owner(&$wanted.owner);
        if let Some(left) = $left {
            lock = lock.wait(left);
        }
        if let Some(at_least) = $wanted.at_least {
            lock = lock.at_least(at_least);
        }
        if let Some(at_most) = $wanted.at_most {
            lock = lock.at_most(at_most);
        }
        if let Some(note) = &$wanted.note {
            lock = lock.note(note);
        }
        lock
    }};
}

impl Wanted {
    /// Takes every name, all or none. `None` when the time is over, or there was none.
    pub(crate) async fn take(&self, locks: &Locks) -> Outcome<Option<Holding>> {
        let deadline = self.wait.map(|wait| Instant::now() + wait);
        let inherited = Inherited::all();
        let mut holding = Holding { locks: locks.clone(), ttl: self.ttl, guards: Vec::new(), borrowed: Vec::new() };
        for name in &self.names {
            let above = inherited.iter().find(|above| above.name == name.as_str());
            if let Some(borrowed) = self.borrow(locks, above).await? {
                holding.borrowed.push(borrowed);
                continue;
            }
            self.waiting_for.replace(Some(name.clone()));
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let guard = match self.take_one(locks, name, left).await {
                Ok(Some(guard)) => guard,
                other => {
                    // What cannot be confirmed is the keeper's.
                    let _ = holding.release().await;
                    return Ok(other.map(|_| None)?);
                }
            };
            let (capacity, weight) = (self.capacity, self.weight);
            let claim = Inherited { id: guard.id(), capacity, weight, name: name.as_str().to_owned() };
            holding.guards.push((guard, claim));
        }
        Ok(Some(holding))
    }

    /// What is held further up under this name, if it is held there indeed.
    async fn borrow(&self, locks: &Locks, above: Option<&Inherited>) -> Outcome<Option<(Inherited, u64)>> {
        let Some(above) = above else { return Ok(None) };
        let Some(token) = above.token(locks).await? else { return Ok(None) };
        above.covers(self.capacity, self.weight)?;
        Ok(Some((above.clone(), token)))
    }

    async fn take_one(&self, locks: &Locks, name: &Name, left: Option<Duration>) -> lockhouse::Result<Option<Guard>> {
        let at_once = self.wait == Some(Duration::ZERO);
        let name = name.as_str();
        match (self.capacity, self.weight) {
            (kind::MUTEX, _) => {
                let lock = on_terms!(locks.mutex(name), self, left);
                if at_once { lock.try_lock().await } else { lock.lock_in_time().await }
            }
            (kind::WHOLE, kind::READER) => {
                let lock = on_terms!(locks.rwlock(name), self, left);
                if at_once { lock.try_read().await } else { in_time(lock.read().await) }
            }
            (kind::WHOLE, _) => {
                let lock = on_terms!(locks.rwlock(name), self, left);
                let guard = if at_once { lock.try_write().await } else { in_time(lock.write().await) };
                guard.map(|guard| guard.map(lockhouse::WriteGuard::into_guard))
            }
            (permits, weight) => {
                let lock = on_terms!(locks.semaphore(name, permits), self, left);
                if at_once { lock.try_acquire(weight).await } else { in_time(lock.acquire(weight).await) }
            }
        }
    }
}

fn in_time<T>(answer: lockhouse::Result<T>) -> lockhouse::Result<Option<T>> {
    match answer {
        Err(error) if error.kind() == Kind::Busy => Ok(None),
        other => other.map(Some),
    }
}

/// A lock that is no longer held, and why.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) claim: Inherited,
    pub(crate) why: Loss,
}

impl Holding {
    /// The claims with their tokens, in the order of their names.
    pub(crate) fn claims(&self) -> Vec<(&Inherited, u64)> {
        let ours = self.guards.iter().map(|(guard, claim)| (claim, guard.token()));
        let mut claims: Vec<_> = ours.chain(self.borrowed.iter().map(|(claim, token)| (claim, *token))).collect();
        claims.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        claims
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// All are held for certain until then. What is held further up is watched over there.
    pub(crate) fn valid_until(&self) -> Moment {
        // The clock is read first, so that the time that passes meanwhile makes the answer earlier and never later.
        let until = |guard: &Guard| Clock::Boot.now() + guard.valid_for();
        self.guards.iter().map(|(guard, _)| until(guard)).min().unwrap_or(Moment::NEVER)
    }

    /// Resolves when one of them is lost.
    pub(crate) async fn lost(&self) -> Lost {
        let ours = async {
            if self.guards.is_empty() {
                return pending().await;
            }
            let (why, at, _) = select_all(self.guards.iter().map(|(guard, _)| Box::pin(guard.lost()))).await;
            Lost { claim: self.guards[at].1.clone(), why }
        };
        let above = async {
            if self.borrowed.is_empty() {
                return pending().await;
            }
            let each = self.borrowed.iter().map(|(claim, _)| Box::pin(claim.lost(&self.locks)));
            let ((), at, _) = select_all(each).await;
            Lost { claim: self.borrowed[at].0.clone(), why: Loss::Gone }
        };
        tokio::select! {
            lost = ours => lost,
            lost = above => lost,
        }
    }

    /// The first that is lost by now, if any is.
    pub(crate) async fn lost_by_now(&self) -> Option<Lost> {
        if self.guards.iter().all(|(guard, _)| guard.check().is_ok()) {
            return None;
        }
        Some(self.lost().await)
    }

    /// Gives all of them back. The first that was not ours any more, if there is one.
    pub(crate) async fn release(self) -> Result<Option<Inherited>, Error> {
        let releases = self.guards.into_iter().map(|(guard, claim)| async { (guard.release().await, claim) });
        let mut not_held = None;
        let mut failed = None;
        for (release, claim) in join_all(releases).await {
            match release {
                Ok(Release::NotHeld) => not_held = not_held.or(Some(claim)),
                Ok(Release::Freed | Release::Shared) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(not_held), Err)
    }
}
