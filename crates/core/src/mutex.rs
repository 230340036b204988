//! The mutex: one holder.

use crate::error::Result;
use crate::guard::Guard;
use crate::options::option_methods;
use crate::request::Request;

/// A mutex of some name: describe it, then [`lock`](Self::lock) it, as often as you like.
///
/// ```
/// # use lockhouse_core::{Locks, Memory};
/// # use std::time::Duration;
/// # async fn example() -> Result<(), lockhouse_core::Error> {
/// # let locks = Locks::new(Memory::new()).await?;
/// let nightly = locks.mutex("reports/nightly").ttl(Duration::from_secs(10)).wait(Duration::from_secs(60));
/// let guard = nightly.lock().await?;
/// # guard.release().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Mutex {
    pub(crate) request: Request,
}

impl Mutex {
    option_methods!(request.options);

    /// Waits for the lock, for as long as [`wait`](Self::wait) permits.
    ///
    /// # Errors
    /// [`Kind::Busy`](crate::Kind::Busy) when the wait is over; [`Kind::Evicted`](crate::Kind::Evicted) when an
    /// operator took us out of the line; what the engine says otherwise. An engine out of reach is ridden out for some
    /// seconds.
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn lock(&self) -> Result<Guard> {
        self.request.lock().await
    }

    /// As [`lock`](Self::lock), with `None` when the wait is over.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), but for `Busy`.
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn lock_in_time(&self) -> Result<Option<Guard>> {
        self.request.lock_by(self.request.deadline(self.request.options.wait)).await
    }

    /// Takes the lock if nobody holds it or waits for it. Does not wait, and leaves nothing behind.
    ///
    /// # Errors
    /// What the engine says; an engine out of reach is never mistaken for a lock that is taken.
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        self.request.try_lock().await
    }
}
