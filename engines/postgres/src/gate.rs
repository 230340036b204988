//! Claims of one client on one name go to the server two at a time.
//!
//! The server carries them out one after the other anyway. One is under way to it while it is busy with another; more
//! would only occupy connections that requests about other names need.

use std::hash::{DefaultHasher, Hash, Hasher};

use lockhouse_core::Name;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Names that share one of so many gates stand in each other's way for a moment.
const GATES: usize = 256;
const AT_ONCE: usize = 2;

/// The way to the server, name by name.
#[derive(Debug)]
pub(crate) struct Gates(Vec<Semaphore>);

impl Default for Gates {
    fn default() -> Self {
        Self((0..GATES).map(|_| Semaphore::new(AT_ONCE)).collect())
    }
}

impl Gates {
    /// Waits for those who came before with the same name.
    ///
    /// # Cancellation safety
    /// Whoever comes next takes the place.
    pub(crate) async fn pass(&self, name: &Name) -> SemaphorePermit<'_> {
        let mut hasher = DefaultHasher::new();
        name.as_str().hash(&mut hasher);
        let gate = usize::try_from(hasher.finish() % GATES as u64).unwrap_or(0);
        self.0[gate].acquire().await.expect("it is never closed")
    }
}
