//! Who is inside a critical section, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts who is inside. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inside(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    now: AtomicU32,
    most: AtomicU32,
    entered: AtomicU32,
}

/// Inside until it is dropped.
#[derive(Debug)]
pub(crate) struct Visit(Arc<Counts>, u32);

impl Inside {
    /// Goes in.
    pub(crate) fn enter(&self) -> Visit {
        self.enter_with(1)
    }

    /// Goes in with this much.
    pub(crate) fn enter_with(&self, weight: u32) -> Visit {
        let now = self.0.now.fetch_add(weight, Ordering::SeqCst) + weight;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        self.0.entered.fetch_add(1, Ordering::SeqCst);
        Visit(Arc::clone(&self.0), weight)
    }

    /// How much is inside.
    pub(crate) fn now(&self) -> u32 {
        self.0.now.load(Ordering::SeqCst)
    }

    /// How much was inside at one time at most.
    pub(crate) fn most(&self) -> u32 {
        self.0.most.load(Ordering::SeqCst)
    }

    /// How many went in.
    pub(crate) fn entered(&self) -> u32 {
        self.0.entered.load(Ordering::SeqCst)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.now.fetch_sub(self.1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_were_inside_together_is_remembered() {
        let inside = Inside::default();
        drop(inside.enter());
        assert_eq!(inside.most(), 1);
        let (one, two) = (inside.enter(), inside.enter_with(2));
        drop((one, two));
        assert_eq!((inside.most(), inside.entered()), (3, 3));
    }
}
