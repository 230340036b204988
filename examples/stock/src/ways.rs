//! The ways to buy.

use lockhouse::Locks;

use crate::{Result, Shelf, think};

/// A way to buy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Look, think, write: what everybody writes first.
    Naive,
    /// Write only if the version is the one that was seen.
    Version,
    /// Write only if the time of the last change is the one that was seen.
    UpdatedAt,
    /// Look, think and write under a lock, and have the write check its token.
    Fenced,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Naive, Self::Version, Self::UpdatedAt, Self::Fenced];

    /// Buys one item. `false` when there are none left.
    ///
    /// # Errors
    /// What the database or the lock's engine says.
    ///
    /// # Cancellation safety
    /// A dropped future has bought or has not, and holds no lock.
    pub async fn buy(self, shelf: &dyn Shelf, locks: &Locks, item: &str) -> Result<bool> {
        match self {
            Self::Naive => naive(shelf, item).await,
            Self::Version => by_version(shelf, item).await,
            Self::UpdatedAt => by_updated_at(shelf, item).await,
            Self::Fenced => fenced(shelf, locks, item).await,
        }
    }
}

async fn naive(shelf: &dyn Shelf, item: &str) -> Result<bool> {
    let seen = shelf.look(item).await?;
    if seen.quantity <= 0 {
        return Ok(false);
    }
    think().await;
    shelf.write(item, seen.quantity - 1).await?;
    Ok(true)
}

async fn by_version(shelf: &dyn Shelf, item: &str) -> Result<bool> {
    loop {
        let seen = shelf.look(item).await?;
        if seen.quantity <= 0 {
            return Ok(false);
        }
        think().await;
        if shelf.write_if_version(item, seen.quantity - 1, seen.version).await? {
            return Ok(true);
        }
    }
}

async fn by_updated_at(shelf: &dyn Shelf, item: &str) -> Result<bool> {
    loop {
        let seen = shelf.look(item).await?;
        if seen.quantity <= 0 {
            return Ok(false);
        }
        think().await;
        if shelf.write_if_updated_at(item, seen.quantity - 1, &seen.updated_at).await? {
            return Ok(true);
        }
    }
}

async fn fenced(shelf: &dyn Shelf, locks: &Locks, item: &str) -> Result<bool> {
    loop {
        let guard = locks.mutex(format!("stock/{item}")).lock().await?;
        let seen = shelf.look(item).await?;
        if seen.quantity <= 0 {
            guard.release().await?;
            return Ok(false);
        }
        think().await;
        // Not only `guard.check()`: between the check and the write there is always time to stand still.
        let written = shelf.write_fenced(item, seen.quantity - 1, guard.token()).await?;
        guard.release().await?;
        if written {
            return Ok(true);
        }
    }
}
