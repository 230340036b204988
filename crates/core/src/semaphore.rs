//! The semaphore: as many holders as there are permits.

use crate::error::Result;
use crate::guard::Guard;
use crate::options::option_methods;
use crate::request::Request;

/// A semaphore of some name. All clients must give it the same number of permits.
///
/// ```
/// # use lockhouse_core::{Locks, Memory};
/// # async fn example() -> Result<(), lockhouse_core::Error> {
/// # let locks = Locks::new(Memory::new()).await?;
/// let uploads = locks.semaphore("uploads", 3);
/// let one = uploads.acquire(1).await?;
/// let two = uploads.acquire(2).await?;
/// assert!(uploads.try_acquire(1).await?.is_none());
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Semaphore {
    pub(crate) request: Request,
}

impl Semaphore {
    option_methods!(request.options);

    /// Waits for that many permits, for as long as [`wait`](Self::wait) permits. They come and go together.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock); [`Kind::Invalid`](crate::Kind::Invalid) for 0 permits or more than there
    /// are; [`Kind::Conflict`](crate::Kind::Conflict) when others say another number of permits.
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn acquire(&self, permits: u32) -> Result<Guard> {
        self.weighing(permits).lock().await
    }

    /// Takes that many permits if they are free and nobody waits. Does not wait, and leaves nothing behind.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but for `Busy`.
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn try_acquire(&self, permits: u32) -> Result<Option<Guard>> {
        self.weighing(permits).try_lock().await
    }

    fn weighing(&self, permits: u32) -> Request {
        Request { weight: permits, ..self.request.clone() }
    }
}
