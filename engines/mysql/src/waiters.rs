//! The claims of this client that wait, and how often they look.
//!
//! MySQL tells nobody of anything, so a waiter looks from time to time: the first in line often, the others the more
//! rarely the farther away they are, and none of them in step. Between looks a waiter uses no connection. A release by
//! the same client wakes its next waiter at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::line::Room;
use lockhouse_core::{ClaimId, Name, Standing};
use rand::Rng;
use tokio::sync::Notify;

use crate::error::Fault;
use crate::line::{HOLDS, WAITS};
use crate::pool::{Request, Session, column, set};
use crate::statement::{Tables, Value, sql};

/// The first in line looks again after the first of these, then ever more rarely, up to the second: a lock that was
/// held for long is likely to be held for longer.
const FIRST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(32));
/// What every claim ahead adds.
const EACH_AHEAD: Duration = Duration::from_millis(40);
/// When the first in line dies, those behind it look one after the other, so much apart and by then at the latest.
const EACH_APART: Duration = Duration::from_millis(2);
const LAST_APART: Duration = Duration::from_millis(100);
/// Nobody looks more rarely.
const RAREST: Duration = Duration::from_secs(5);

/// Where a claim stands in a line.
pub(crate) type Place = (i64, u64);

/// What both sides of a client know of its waiters.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Claims that were answered "queued" and not granted or withdrawn since.
    in_line: HashSet<ClaimId>,
    /// Who sleeps, by name and in order.
    sleeping: HashMap<Name, BTreeMap<(Place, ClaimId), Arc<Notify>>>,
}

impl Waiters {
    /// Whether the claim is known to be in line.
    pub(crate) fn knows(&self, id: &ClaimId) -> bool {
        self.state().in_line.contains(id)
    }

    /// Takes note of what a claim was answered.
    pub(crate) fn answered(&self, id: ClaimId, standing: Standing) {
        let mut state = self.state();
        match standing {
            Standing::Queued { .. } => state.in_line.insert(id),
            _ => state.in_line.remove(&id),
        };
    }

    /// A claim of this client left a line: the next one of this client may be the next one of all.
    pub(crate) fn left(&self, name: &Name, id: &ClaimId) {
        let mut state = self.state();
        state.in_line.remove(id);
        if let Some((_, next)) = state.sleeping.get(name).and_then(BTreeMap::first_key_value) {
            next.notify_one();
        }
    }

    /// A place to sleep. Given up when dropped.
    pub(crate) fn sleeper(&self, name: &Name, place: Place, id: ClaimId) -> Sleeper<'_> {
        let woken = Arc::new(Notify::new());
        let key = (place, id);
        self.state().sleeping.entry(name.clone()).or_default().insert(key, Arc::clone(&woken));
        Sleeper { waiters: self, name: name.clone(), key, woken }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiter that sleeps.
#[derive(Debug)]
pub(crate) struct Sleeper<'a> {
    waiters: &'a Waiters,
    name: Name,
    key: (Place, ClaimId),
    woken: Arc<Notify>,
}

impl Sleeper<'_> {
    /// Sleeps until it is woken, and for so long at most.
    pub(crate) async fn sleep(&self, longest: Duration) {
        let _ = tokio::time::timeout(longest, self.woken.notified()).await;
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let mut state = self.waiters.state();
        if let Some(sleeping) = state.sleeping.get_mut(&self.name) {
            sleeping.remove(&self.key);
            if sleeping.is_empty() {
                state.sleeping.remove(&self.name);
            }
        }
    }
}

/// One look at a claim that waits, without locking anything.
#[derive(Debug)]
pub(crate) struct Glance<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) name: &'a Name,
    pub(crate) id: &'a ClaimId,
}

/// What it shows.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The lock is the claim's.
    Granted(u64),
    /// It may get in, or is not in line any more: it should ask.
    MayMove,
    /// It waits.
    Waits {
        /// Where.
        place: Place,
        /// How many wait ahead of it.
        ahead: u64,
        /// When the lease of the first in line is over, if that is not renewed.
        first_left: Duration,
    },
}

impl Request for Glance<'_> {
    type Answer = Seen;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Seen, Fault> {
        let key = [("name", Value::name(self.name)), ("id", Value::id(self.id))];
        let sets = session.look(&self.tables.write(sql!("glance"), &key)).await?;
        let Some(row) = set(&sets, 0)?.rows.first() else { return Ok(Seen::MayMove) };
        let (state, token): (u8, Option<u64>) = (column(row, 0)?, column(row, 1)?);
        let (weight, capacity): (u32, u32) = (column(row, 2)?, column(row, 3)?);
        let place = (column(row, 4)?, column(row, 5)?);
        let (ahead, first_left, held): (u64, Option<i64>, u64) = (column(row, 6)?, column(row, 7)?, column(row, 8)?);
        let first_left = Duration::from_micros(first_left.and_then(|left| u64::try_from(left).ok()).unwrap_or(0));
        let fits = ahead == 0 && Room::beside(capacity, held).admit(weight);
        Ok(match (state, token) {
            (HOLDS, Some(token)) => Seen::Granted(token),
            (WAITS, _) if !fits && !first_left.is_zero() => Seen::Waits { place, ahead, first_left },
            _ => Seen::MayMove,
        })
    }
}

/// How long a waiter sleeps that has looked so often in vain, with so many waiters ahead of it.
///
/// Whoever dies at the head of the line is noticed by those behind, however rarely they look otherwise.
pub(crate) fn pause(ahead: u64, looks: u32, first_left: Duration) -> Duration {
    let (first, last) = FIRST;
    let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
    let pause = first.saturating_mul(1 << looks.min(10)).min(last).max(EACH_AHEAD.saturating_mul(ahead)).min(RAREST);
    let spread = EACH_APART.saturating_mul(ahead).min(LAST_APART);
    pause.mul_f64(rand::rng().random_range(0.5..1.0)).min(first_left + spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_looks_often_and_the_others_rarely() {
        for _ in 0..100 {
            let lives = Duration::from_secs(60);
            assert!(pause(0, 0, lives) <= Duration::from_millis(2));
            assert!(pause(0, 1000, lives) <= Duration::from_millis(32));
            assert!(pause(10, 0, lives) >= Duration::from_millis(200));
            assert!(pause(u64::MAX, 0, lives) <= RAREST);
            assert!(pause(u64::MAX, 0, Duration::from_millis(7)) <= Duration::from_millis(107));
        }
    }

    #[tokio::test]
    async fn a_release_wakes_the_next_of_the_same_client_and_nobody_else() {
        let waiters = Waiters::default();
        let name = Name::new("a").unwrap();
        let (one, two) = (ClaimId::random(), ClaimId::random());
        let (second, first) = (waiters.sleeper(&name, (0, 9), two), waiters.sleeper(&name, (0, 5), one));
        waiters.left(&name, &ClaimId::random());
        let begin = std::time::Instant::now();
        first.sleep(Duration::from_secs(600)).await;
        assert!(begin.elapsed() < Duration::from_secs(300), "it was not woken");
        let short = Duration::from_millis(20);
        let begin = std::time::Instant::now();
        second.sleep(short).await;
        assert!(begin.elapsed() >= short, "it was woken too");
        drop((first, second));
        assert!(waiters.state().sleeping.is_empty());
    }
}
