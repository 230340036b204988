//! The two ways to hold a lock by a connection.

use std::fmt::Debug;

use async_trait::async_trait;
use lockhouse_core::{ClaimId, Name};

use crate::error::Fault;
use crate::holding::Holding;
use crate::links::Grip;
use crate::said::Said;

/// A claim that has left its line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    /// It was there until then.
    pub(crate) was_there: bool,
    /// The server's time.
    pub(crate) micros: i64,
}

/// A claim that has got its turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) token: i64,
    /// The server's time.
    pub(crate) micros: i64,
}

/// A way to hold a lock by a connection, alone or shared with others who share it.
#[async_trait]
pub(crate) trait Way: Debug + Send + Sync {
    /// Takes the lock, if nobody has it. Does not wait.
    ///
    /// # Cancellation safety
    /// None: what was taken stays taken.
    async fn take(&self, name: &Name, shared: bool) -> Result<Option<Grip>, Fault>;

    /// Takes the lock as [`Way::take`] does, alone, and puts a claim in its line by the same request: both, if nobody
    /// is there and it can be done without waiting for anybody, or neither. It waits for the disk, so nothing else may
    /// be held by the connection.
    ///
    /// # Cancellation safety
    /// As that of [`Way::take`].
    async fn enter(&self, said: &Said) -> Result<Option<(Grip, Turn)>, Fault>;

    /// Waits for the lock for a while, behind those who wait already. Gives `None` at once when there is no connection
    /// to wait on.
    ///
    /// # Cancellation safety
    /// The connection on which it waits is closed, and nothing is taken.
    async fn wait(&self, name: &Name, shared: bool) -> Result<Option<Grip>, Fault>;

    /// Shares what was held alone. `false` when somebody else has it now.
    async fn weaken(&self, grip: &Grip, name: &Name) -> Result<bool, Fault>;

    /// Gives the lock back. If the claim that held it is named it leaves its line with that, where this can be done by
    /// the same request and without waiting for anybody; `None` when it has not.
    async fn give(&self, grip: Grip, name: &Name, shared: bool, leaves: Option<ClaimId>)
    -> Result<Option<Left>, Fault>;

    /// Makes sure that the server, too, knows that a connection is gone.
    async fn end(&self, ghost: &Holding) -> Result<(), Fault>;

    /// Whether one more lock can be held.
    fn has_room(&self) -> bool;
}
