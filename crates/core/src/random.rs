//! Randomness: the operating system's, or in a simulation that of a seed.

use std::cell::RefCell;

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

thread_local! {
    static SEEDED: RefCell<Option<SmallRng>> = const { RefCell::new(None) };
}

/// Begins a simulation on this thread: identities and pauses come from the seed from now on, and the
/// [simulated clock](crate::Clock::Simulated) starts anew. The same seed gives the same run.
pub fn begin_simulation(seed: u64) {
    SEEDED.set(Some(SmallRng::seed_from_u64(seed)));
    crate::clock::start_simulated();
}

/// Random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SEEDED.with_borrow_mut(|seeded| match seeded {
        Some(seeded) => seeded.fill_bytes(&mut bytes),
        None => rand::rng().fill_bytes(&mut bytes),
    });
    bytes
}

/// A random number from 0 up to 1.
pub(crate) fn fraction() -> f64 {
    SEEDED.with_borrow_mut(|seeded| match seeded {
        Some(seeded) => seeded.random(),
        None => rand::rng().random(),
    })
}
