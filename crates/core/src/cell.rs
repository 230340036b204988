//! Cells for users: the optimistic lock, and a resource that checks tokens.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::engine::{Cell, Write, Written};
use crate::error::{Error, Happened, Kind, Result};
use crate::options::Named;
use crate::random;

/// How often a write whose reply was lost is asked about again.
const ASK_AGAIN: u32 = 3;
/// How often an update starts over because somebody else was faster, and the longest pause before it does.
const UPDATE_AGAIN: (u32, Duration) = (64, Duration::from_millis(20));

/// A cell of some name: a small versioned value kept by the engine. Cells and locks of one name have nothing to do with
/// each other.
///
/// ```
/// # use lockhouse_core::{Locks, Memory, Written};
/// # async fn example() -> Result<(), lockhouse_core::Error> {
/// # let locks = Locks::new(Memory::new()).await?;
/// let stock = locks.cell("stock/42");
/// let seen = stock.read().await?;
/// assert_eq!(stock.write_if(seen.version, b"7").await?, Written::Yes { version: 1 });
/// assert_eq!(stock.write_if(seen.version, b"9").await?, Written::Changed { version: 1 });
/// let after = stock.update(|value| [value, b"!"].concat()).await?;
/// assert_eq!(after.value, b"7!");
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct CellHandle {
    client: Arc<Client>,
    name: Named,
    token: Option<u64>,
}

impl CellHandle {
    pub(crate) fn new(client: &Arc<Client>, name: &str) -> Self {
        Self { client: Arc::clone(client), name: Named::new(name), token: None }
    }

    /// The same cell, written only with this fencing token: refused as [`Written::Stale`] when a newer one was seen.
    #[must_use]
    pub fn fenced(&self, token: u64) -> Self {
        Self { token: Some(token), ..self.clone() }
    }

    /// Reads the cell.
    ///
    /// # Errors
    /// A bad name, or what the engine says.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect.
    pub async fn read(&self) -> Result<Cell> {
        let name = self.name.get()?;
        self.client.call("read", Some(&name), self.client.front.read(&name)).await
    }

    /// Writes the cell whatever its version.
    ///
    /// # Errors
    /// What the engine says; [`may_have_happened`](Error::may_have_happened) tells whether it may be written.
    ///
    /// # Cancellation safety
    /// A dropped future may have written.
    pub async fn write(&self, value: impl Into<Vec<u8>>) -> Result<Written> {
        self.put(value.into(), None).await
    }

    /// Writes the cell if it is still at the version that was read.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancellation safety
    /// A dropped future may have written.
    pub async fn write_if(&self, version: u64, value: impl Into<Vec<u8>>) -> Result<Written> {
        self.put(value.into(), Some(version)).await
    }

    /// Reads, changes and writes, and starts over when somebody else wrote in between. Returns what was written.
    ///
    /// # Errors
    /// As [`write`](Self::write); [`Kind::Lost`] when the token is no longer the newest; [`Kind::Busy`] when others
    /// were faster 64 times.
    ///
    /// # Cancellation safety
    /// A dropped future may have written.
    pub async fn update(&self, mut change: impl FnMut(&[u8]) -> Vec<u8>) -> Result<Cell> {
        let (attempts, longest) = UPDATE_AGAIN;
        let name = self.name.get()?;
        for attempt in 0..attempts {
            let seen = self.read().await?;
            let value = change(&seen.value);
            match self.put(value.clone(), Some(seen.version)).await? {
                Written::Yes { version } => {
                    return Ok(Cell { version, token: self.token.unwrap_or(0).max(seen.token), value });
                }
                Written::Stale { newest } => {
                    let what =
                        format!("the token {} is not the newest any more: {newest} was seen", self.token.unwrap_or(0));
                    return Err(Error::new(Kind::Lost, what).during("update", Some(&name)));
                }
                // Never in lockstep: whoever lost the race sleeps for a random time.
                Written::Changed { .. } => {
                    let pause = longest * attempt / attempts;
                    tokio::time::sleep(pause.mul_f64(random::fraction())).await;
                }
            }
        }
        let what = format!("others wrote in between {attempts} times");
        Err(Error::new(Kind::Busy, what).help("take a lock around the update").during("update", Some(&name)))
    }

    async fn put(&self, value: Vec<u8>, if_version: Option<u64>) -> Result<Written> {
        let name = self.name.get()?;
        let write = Write { id: random::bytes(), value, if_version, token: self.token };
        let mut doubt: Option<Error> = None;
        for attempt in 1.. {
            match self.client.call("write", Some(&name), self.client.front.write(&name, &write)).await {
                // Ours may have been written before the reply was lost, and somebody else's after it.
                Ok(Written::Changed { .. } | Written::Stale { .. }) if doubt.is_some() => break,
                Ok(written) => return Ok(written),
                Err(error) if error.may_have_happened() == Happened::Unknown => doubt = Some(error),
                Err(error) => return Err(doubt.unwrap_or(error)),
            }
            // Without a version to compare, asking again could overwrite what somebody else wrote since.
            if attempt == ASK_AGAIN || if_version.is_none() {
                break;
            }
        }
        Err(doubt.expect("the loop is left only in doubt"))
    }
}
