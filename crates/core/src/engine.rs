//! The contract between Lockhouse and an engine.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::checkup::Checkup;
use crate::claim::{Claim, PublicId};
use crate::error::Result;
use crate::guarantees::Guarantees;
use crate::name::Name;
use crate::options::MAX_TTL;
use crate::survey::Line;

/// Where a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The lock is the claim's.
    Granted {
        /// The fencing number of this grant: it grows with every grant of a name.
        token: u64,
    },
    /// Others are ahead.
    Queued {
        /// How many claims are ahead, holders included. For people; engines that cannot count say 1.
        ahead: u32,
    },
    /// The claim has lost its place, and nothing of it is left: a new one may take its place at the end of the line.
    Displaced,
    /// No patience and someone is ahead, or an operator took the claim out of the line. Nothing was left behind.
    Refused,
}

/// What became of one claim's renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Renewal {
    /// Its lease was renewed.
    Renewed,
    /// The engine does not know it any more, or an operator ended it.
    Gone,
    /// The engine could not find out. Neither extends nor ends anything.
    Unknown,
}

/// What became of a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Withdrawal {
    /// The claim was there and is not any more.
    Withdrawn,
    /// No such claim: released before, expired, or still on its way.
    NotThere,
}

/// A small versioned value kept by the engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// Grows with every write; 0 when the cell was never written.
    pub version: u64,
    /// The newest fencing token seen by a write; 0 when there was none.
    pub token: u64,
    /// The value; empty when the cell was never written.
    pub value: Vec<u8>,
}

/// One write to a cell.
#[derive(Debug, Clone)]
pub struct Write {
    /// Made before anything is sent, so that a lost reply can be asked for again: an engine remembers the id of the
    /// last write of a cell and answers a repetition as it answered the first.
    pub id: [u8; 16],
    /// The new value.
    pub value: Vec<u8>,
    /// Write only if the cell is still at this version.
    pub if_version: Option<u64>,
    /// Write only if no newer token has been seen.
    pub token: Option<u64>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Written {
    /// Written, and the cell's version is now this.
    Yes {
        /// The new version.
        version: u64,
    },
    /// The cell was at another version.
    Changed {
        /// The version it is at.
        version: u64,
    },
    /// A newer token has been seen: the writer's lock belongs to somebody else by now.
    Stale {
        /// The newest token seen.
        newest: u64,
    },
}

/// Keeps lines and cells. What an engine's author implements; all comfort is built on it, once.
///
/// # Contract
/// - **Every verb can be repeated.** A lost reply is answered by asking again with the same claim id; it never takes a
///   second place in line and never frees somebody else's lock.
/// - **No error is turned into "no".** A verb whose outcome is not known fails with
///   [`Happened::Unknown`](crate::Happened::Unknown).
/// - **Who is granted** is decided by [`line`](crate::line) alone. Claims of one name that disagree about the capacity
///   get [`Kind::Conflict`](crate::Kind::Conflict).
/// - **A lease** runs from the moment the engine hears of the claim, by `claim` or `renew`, for the claim's `ttl`. When
///   it is over the claim is out of the line. It is kept by the engine's clock, never by a client's wall clock.
/// - **Tokens** of a name grow with every grant, also across the restarts that [`Guarantees::token`] covers.
/// - Every future is **cancel-safe**: dropped at any point, the verb was carried out or not, and can be repeated.
#[async_trait]
pub trait Engine: Debug + Send + Sync + 'static {
    /// What this engine, in this topology, can promise.
    fn guarantees(&self) -> Guarantees;

    /// The longest that the engine honours any claim without hearing of it again: where claims are bound to a session,
    /// that session's time-out. Clients claim for no longer than this, whatever lease they were asked for.
    fn longest_lease(&self) -> Duration {
        MAX_TTL
    }

    /// Puts the claim in line or, if it is there already, renews its lease and says where it stands.
    ///
    /// A claim that is there with a larger weight is downgraded: it keeps its place and its token. A claim that
    /// [lingers](Claim::lingers) in the engine is left as it is. A waiter that an operator evicted is refused.
    async fn claim(&self, claim: &Claim) -> Result<Standing>;

    /// Resolves when the claim may have moved. `Some` when the engine pushed the new standing itself.
    ///
    /// It may resolve for no reason, and the caller bounds it by a poll of its own.
    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>>;

    /// Renews many leases at once: waiters' and holders' alike. One answer per claim, in their order.
    ///
    /// Never revives a claim that was withdrawn, evicted or has expired. A claim that [lingers](Claim::lingers) is
    /// given its `ttl` from now and is from then on bound to no client.
    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>>;

    /// Releases the claim or leaves the line: the same thing.
    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal>;

    /// Every line under a prefix, in the order of their names, for people. Never for deciding whether to proceed.
    async fn survey(&self, prefix: &str) -> Result<Vec<Line>>;

    /// An operator ends a claim; its holder is told. `false` when there is no such claim.
    ///
    /// The claim is renewed no more. A waiter leaves the line at once. A holder's place stays taken until the holder,
    /// told by its next renewal, withdraws, or until its lease is over: so nobody gets in before the holder knows.
    /// Engines whose claims are bound to a session or a connection, and strangers' locks, end at once instead.
    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool>;

    /// What the server says of itself, for people: its version, its clock, the settings that matter for locks.
    ///
    /// An engine without a server has nothing to say. What the account may not ask is left out, not an error.
    async fn checkup(&self) -> Result<Checkup> {
        Ok(Checkup::default())
    }

    /// Reads a cell.
    async fn read(&self, name: &Name) -> Result<Cell>;

    /// Writes a cell if the version is the one read and the token is not older than the newest seen.
    async fn write(&self, name: &Name, write: &Write) -> Result<Written>;
}

/// Which side of a client asks to be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The keeper's own runtime. Connected first: what both sides share, such as a session, begins and lives here.
    Keeper,
    /// The caller's runtime.
    Front,
}

/// Connects a client to its engine: twice, since each side has a runtime of its own.
#[async_trait]
pub trait Connector: Debug + Send + Sync + 'static {
    /// Connects one side. Called on that side's runtime.
    ///
    /// # Errors
    /// What the engine says, within a bounded time.
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>>;
}

/// An engine without connections of its own serves both sides as it is.
#[async_trait]
impl Connector for Arc<dyn Engine> {
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(self))
    }
}
