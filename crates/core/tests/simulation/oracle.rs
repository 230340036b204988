//! What must hold in every run.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use lockhouse_core::{Clock, Guard};

/// A hold that some program believes in.
pub(crate) struct Believed {
    pub(crate) guard: Guard,
    pub(crate) weight: Cell<u32>,
}

/// What all programs of a run believe, by name.
#[derive(Default)]
pub(crate) struct Oracle {
    believed: RefCell<HashMap<&'static str, Vec<Rc<Believed>>>>,
    tokens: RefCell<HashMap<&'static str, Tokens>>,
    /// A digest of everything that happened and when, to compare two runs of one seed.
    pub(crate) digest: Cell<u64>,
}

#[derive(Default, Clone, Copy)]
struct Tokens {
    newest: u64,
    newest_whole: u64,
}

impl Oracle {
    /// A program was granted a lock: it must fit beside everybody who still validly holds.
    pub(crate) fn granted(&self, name: &'static str, guard: Guard, weight: u32, capacity: u32) -> Rc<Believed> {
        let mut believed = self.believed.borrow_mut();
        let holds = believed.entry(name).or_default();
        holds.retain(|hold| hold.guard.check().is_ok());
        let held: u64 = holds.iter().map(|hold| u64::from(hold.weight.get())).sum();
        assert!(
            held + u64::from(weight) <= u64::from(capacity),
            "two valid holds of {name} conflict: {guard:?} (weight {weight}) beside {:?}",
            holds.iter().map(|hold| (&hold.guard, hold.weight.get())).collect::<Vec<_>>()
        );
        self.token(name, guard.token(), weight == capacity);
        let hold = Rc::new(Believed { guard, weight: Cell::new(weight) });
        holds.push(Rc::clone(&hold));
        hold
    }

    /// A token is newer than that of everybody who must have been out before.
    fn token(&self, name: &'static str, token: u64, whole: bool) {
        let mut tokens = self.tokens.borrow_mut();
        let seen = tokens.entry(name).or_default();
        // Whoever shares may hear of its grant before one that was granted earlier does.
        let before = if whole { seen.newest } else { seen.newest_whole };
        assert!(token > before, "the token of {name} did not grow: {token} after {before}");
        seen.newest = seen.newest.max(token);
        if whole {
            seen.newest_whole = token;
        }
    }

    /// A program lets go: from here on others may be in. Gives the guard back.
    pub(crate) fn lets_go(&self, name: &'static str, hold: Rc<Believed>) -> Guard {
        if let Some(holds) = self.believed.borrow_mut().get_mut(name) {
            holds.retain(|known| !Rc::ptr_eq(known, &hold));
        }
        Rc::into_inner(hold).expect("the oracle let go of it").guard
    }

    /// A client crashed: what it believed is gone with it.
    pub(crate) fn forget(&self, hold: &Rc<Believed>) {
        for holds in self.believed.borrow_mut().values_mut() {
            holds.retain(|known| !Rc::ptr_eq(known, hold));
        }
    }

    /// Takes note of something that happened.
    pub(crate) fn note(&self, what: u64) {
        let now = Clock::Simulated.now().as_nanos();
        let mixed = (self.digest.get() ^ what ^ now.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest.set(mixed.rotate_left(29));
    }
}
