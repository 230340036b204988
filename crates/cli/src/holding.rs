//! The locks of one `run`: taken in order, held together, given back together.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::pending;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use lockhouse::{Clock, Error, Guard, Kind, Locks, Loss, Moment, Name, Owner, Release, line::kind};

use crate::above::{Above, Borrowed};
use crate::complaint::Outcome;
use crate::lifeline::Held;
use crate::waiting::millis;

/// What is wanted of every name.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The engine's URL without credentials.
    pub(crate) engine: String,
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
    ttl: Duration,
    guards: Vec<(Guard, Held)>,
    /// What is held further up.
    borrowed: Vec<Borrowed>,
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
        let above = Above::all();
        let mut holding = Holding { ttl: self.ttl, guards: Vec::new(), borrowed: Vec::new() };
        for name in &self.names {
            if let Some(borrowed) = self.borrow(above.iter().find(|above| above.name == name.as_str())).await? {
                holding.ttl = holding.ttl.min(borrowed.ttl());
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
            let held = self.held(&guard);
            holding.guards.push((guard, held));
        }
        Ok(Some(holding))
    }

    /// What is held further up under this name, if it is held there indeed.
    async fn borrow(&self, above: Option<&Above>) -> Outcome<Option<Borrowed>> {
        let Some(above) = above else { return Ok(None) };
        let borrowed = above.borrow(&self.engine).await?;
        borrowed.as_ref().map_or(Ok(()), |borrowed| borrowed.covers(self.capacity, self.weight))?;
        Ok(borrowed)
    }

    /// A claim of ours, for those who go ahead under it.
    fn held(&self, guard: &Guard) -> Held {
        Held {
            engine: self.engine.clone(),
            name: guard.name().as_str().to_owned(),
            claim: guard.id().to_string(),
            token: guard.token(),
            capacity: self.capacity,
            weight: self.weight,
            ttl_ms: millis(self.ttl),
        }
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
    pub(crate) claim: Held,
    pub(crate) why: Loss,
}

impl Holding {
    /// The claims, in the order of their names.
    pub(crate) fn claims(&self) -> Vec<&Held> {
        let ours = self.guards.iter().map(|(_, held)| held);
        let mut claims: Vec<_> = ours.chain(self.borrowed.iter().map(|borrowed| &borrowed.held)).collect();
        claims.sort_by(|a, b| a.name.cmp(&b.name));
        claims
    }

    /// The claims that are ours.
    pub(crate) fn ours(&self) -> Vec<Held> {
        self.guards.iter().map(|(_, held)| held.clone()).collect()
    }

    /// Where those that are held further up can be asked for.
    pub(crate) fn above(&self) -> impl Iterator<Item = &Above> {
        self.borrowed.iter().map(|borrowed| &borrowed.above)
    }

    /// The shortest lease of all.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// All are held for certain until then.
    pub(crate) fn valid_until(&self) -> Moment {
        // The clock is read first, so that the time that passes meanwhile makes the answer earlier and never later.
        let until = |guard: &Guard| Clock::Boot.now() + guard.valid_for();
        let ours = self.guards.iter().map(|(guard, _)| until(guard));
        ours.chain(self.borrowed.iter().map(Borrowed::until)).min().unwrap_or(Moment::NEVER)
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
            let ((), at, _) = select_all(self.borrowed.iter().map(|borrowed| Box::pin(borrowed.lost()))).await;
            Lost { claim: self.borrowed[at].held.clone(), why: Loss::Gone }
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
    pub(crate) async fn release(self) -> Result<Option<Held>, Error> {
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
