//! The read-write lock: many readers together, or one writer alone.

use std::ops::Deref;

use crate::claim::Claim;
use crate::engine::Standing;
use crate::error::{Error, Happened, Kind, Result};
use crate::guard::Guard;
use crate::line::kind;
use crate::options::option_methods;
use crate::request::Request;

/// A read-write lock of some name. A waiting writer is not starved: readers that come after it wait behind it.
///
/// ```
/// # use lockhouse_core::{Locks, Memory};
/// # async fn example() -> Result<(), lockhouse_core::Error> {
/// # let locks = Locks::new(Memory::new()).await?;
/// let catalogue = locks.rwlock("catalogue");
/// let writer = catalogue.write().await?;
/// let reader = writer.downgrade().await.map_err(|(_, error)| error)?;
/// let another = catalogue.read().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct RwLock {
    pub(crate) request: Request,
}

impl RwLock {
    option_methods!(request.options);

    /// Waits until no writer is in or ahead, for as long as [`wait`](Self::wait) permits.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn read(&self) -> Result<Guard> {
        self.request.lock().await
    }

    /// Reads if no writer is in or ahead. Does not wait, and leaves nothing behind.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn try_read(&self) -> Result<Option<Guard>> {
        self.request.try_lock().await
    }

    /// Waits until nobody else is in, for as long as [`wait`](Self::wait) permits.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn write(&self) -> Result<WriteGuard> {
        self.writing().lock().await.map(WriteGuard)
    }

    /// Writes if nobody is in or ahead. Does not wait, and leaves nothing behind.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws it.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        Ok(self.writing().try_lock().await?.map(WriteGuard))
    }

    fn writing(&self) -> Request {
        Request { weight: kind::WHOLE, ..self.request.clone() }
    }
}

/// The guard of a writer: a [`Guard`] that can become a reader's.
///
/// There is no way from reader to writer: two readers who both wanted it would wait for each other for ever.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    /// Becomes a reader without letting go: no writer gets in between, waiting readers get in at once. The token stays.
    ///
    /// # Errors
    /// Gives the guard back with what the engine says. It is then held as a writer or as a reader, and asking again is
    /// safe. [`Kind::Invalid`] when other guards of the same owner share the hold.
    ///
    /// # Cancellation safety
    /// A dropped future releases the lock.
    pub async fn downgrade(self) -> Result<Guard, (Self, Error)> {
        let held = self.0.held();
        let hold = held.hold();
        let name = hold.claim.name.clone();
        if self.0.is_shared() {
            let what = "other guards of the same owner still write under this lock";
            return Err((self, Error::new(Kind::Invalid, what).during("downgrade", Some(&name))));
        }
        if let Err(error) = self.0.check() {
            return Err((self, error));
        }
        let reader = Claim { weight: kind::READER, floor: self.0.token(), ..hold.claim.clone() };
        let client = &held.client;
        hold.sending();
        let answer = client.call("downgrade", Some(&name), client.front.claim(&reader)).await;
        if answer.as_ref().err().is_none_or(|error| error.may_have_happened() == Happened::No) {
            hold.answered();
        }
        match answer {
            Ok(Standing::Granted { token }) if token == self.0.token() => {
                held.weighs(kind::READER);
                Ok(self.0)
            }
            Ok(_) => {
                let error = Error::new(Kind::Lost, "the lock was lost before it was downgraded");
                Err((self, error.during("downgrade", Some(&name))))
            }
            Err(error) => Err((self, error)),
        }
    }

    /// The guard without its right to downgrade.
    pub fn into_guard(self) -> Guard {
        self.0
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}
