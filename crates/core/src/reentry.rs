//! Reentrancy: the same owner locking the same name again shares the hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::{Error, Kind, Result};
use crate::guard::Held;
use crate::name::Name;
use crate::options::Terms;
use crate::owner::Owner;

type Key = (Owner, Name);

/// The hold of one owner on one name. Locked while the owner is about to claim, so that two tasks of one owner make one
/// claim between them.
pub(crate) type Seat = Arc<tokio::sync::Mutex<Weak<Held>>>;

/// The holds that owners can enter again.
#[derive(Debug, Default)]
pub(crate) struct Reentry {
    seats: Mutex<HashMap<Key, Seat>>,
}

impl Reentry {
    fn seats(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner's seat on that name.
    pub(crate) fn seat(&self, key: &Key) -> Seat {
        Arc::clone(self.seats().entry(key.clone()).or_default())
    }

    /// Forgets a seat that nobody sits on or is about to.
    pub(crate) fn forget(&self, key: &Key) {
        let mut seats = self.seats();
        let unused = seats.get(key).is_some_and(|seat| {
            Arc::strong_count(seat) == 1 && seat.try_lock().is_ok_and(|held| held.strong_count() == 0)
        });
        if unused {
            seats.remove(key);
        }
    }
}

/// The hold that this owner has already, if it covers what is asked for now.
pub(crate) fn enter(held: &Weak<Held>, terms: &Terms) -> Result<Option<Arc<Held>>> {
    // A lost hold is not shared: the owner has to get in line again.
    let Some(held) = held.upgrade().filter(|held| held.hold().lost().is_none()) else { return Ok(None) };
    let claim = &held.hold().claim;
    if claim.capacity != terms.capacity {
        let what = format!("{} holds this name as a lock of another kind (capacity {})", claim.owner, claim.capacity);
        return Err(Error::new(Kind::Conflict, what).during("lock", Some(&terms.name)));
    }
    if terms.weight > held.weight() {
        let what =
            format!("{} holds a part of this lock and asks for more of it, which could wait for itself", claim.owner);
        let help = "release first, or take the larger part from the start";
        return Err(Error::new(Kind::Invalid, what).help(help).during("lock", Some(&terms.name)));
    }
    Ok(Some(held))
}
