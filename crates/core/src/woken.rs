//! For tests: how often a task is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

#[derive(Default)]
pub(crate) struct Woken(AtomicU32);

impl Woken {
    /// It, and what wakes it.
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let woken = Arc::<Self>::default();
        (Arc::clone(&woken), Waker::from(woken))
    }

    pub(crate) fn times(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
