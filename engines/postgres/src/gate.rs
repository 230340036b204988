//! Requests of one client about one name go to the server one after the other.
//!
//! The server would carry them out one after the other anyway, and until then each would occupy a connection that
//! requests about other names need.

use std::hash::{DefaultHasher, Hash, Hasher};

use lockhouse_core::Name;
use tokio::sync::{Mutex, MutexGuard};

/// Names that share one of so many gates stand in each other's way for a moment.
const GATES: usize = 256;

/// The way to the server, name by name.
#[derive(Debug)]
pub(crate) struct Gates(Vec<Mutex<()>>);

impl Default for Gates {
    fn default() -> Self {
        Self((0..GATES).map(|_| Mutex::default()).collect())
    }
}

impl Gates {
    /// Waits for everybody who came before with the same name.
    ///
    /// # Cancellation safety
    /// Whoever comes next takes the place.
    pub(crate) async fn pass(&self, name: &Name) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        name.as_str().hash(&mut hasher);
        let gate = usize::try_from(hasher.finish() % GATES as u64).unwrap_or(0);
        self.0[gate].lock().await
    }
}
