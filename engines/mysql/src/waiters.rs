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

/// The first in line looks again after the first of these, then ever more rarely, up to the second: a lock that was held
/// for long is likely to be held for longer.
const FIRST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(32));
/// What every claim ahead adds.
const EACH_AHEAD: Duration = Duration::from_millis(40);
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
    /// It waits here, behind so many waiters.
    Waits(Place, u64),
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
        let (ahead, first_is_over, held): (u64, Option<bool>, u64) =
            (column(row, 6)?, column(row, 7)?, column(row, 8)?);
        let fits = ahead == 0 && Room::beside(capacity, held).admit(weight);
        Ok(match (state, token) {
            (HOLDS, Some(token)) => Seen::Granted(token),
            (WAITS, _) if !fits && first_is_over != Some(true) => Seen::Waits(place, ahead),
            _ => Seen::MayMove,
        })
    }
}

/// How long a waiter sleeps that has looked so often in vain, with so many waiters ahead of it.
pub(crate) fn pause(ahead: u64, looks: u32) -> Duration {
    let (first, last) = FIRST;
    let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
    let pause = first.saturating_mul(1 << looks.min(10)).min(last).max(EACH_AHEAD.saturating_mul(ahead)).min(RAREST);
    pause.mul_f64(rand::rng().random_range(0.5..1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_looks_often_and_the_others_rarely() {
        for _ in 0..100 {
            assert!(pause(0, 0) <= Duration::from_millis(2));
            assert!(pause(0, 1000) <= Duration::from_millis(32));
            assert!(pause(10, 0) >= Duration::from_millis(200));
            assert!(pause(u64::MAX, 0) <= RAREST);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_wakes_the_next_of_the_same_client_and_nobody_else() {
        let waiters = Waiters::default();
        let name = Name::new("a").unwrap();
        let (one, two) = (ClaimId::random(), ClaimId::random());
        let (second, first) = (waiters.sleeper(&name, (0, 9), two), waiters.sleeper(&name, (0, 5), one));
        waiters.left(&name, &ClaimId::random());
        let long = Duration::from_secs(60);
        let begin = tokio::time::Instant::now();
        first.sleep(long).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        second.sleep(long).await;
        assert_eq!(begin.elapsed(), long);
        drop((first, second));
        assert!(waiters.state().sleeping.is_empty());
    }
}
