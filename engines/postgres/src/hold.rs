//! How a lock is held.

use std::time::Duration;

/// How a lock is held: what keeps others out while it is.
///
/// Whatever it is, claims stand in one line in the tables, with a lease each: clients of every kind exclude each other.
/// A lock that is held by a session or by a row also keeps out programs that know nothing of Lockhouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Hold {
    /// By the lease alone. No connection is bound to it.
    #[default]
    Lease,
    /// Also by an advisory lock of a connection, as by `pg_advisory_lock`: many locks of a client on few connections.
    Session,
    /// Also by the lock's row, as by `SELECT … FOR UPDATE`, in a transaction of its own: a connection for each lock.
    Row,
}

/// The longest silence unless said: with a lease that is over by then, a holder that was cut off silently is told, and
/// its lock free, in less than 25 s.
pub(crate) const DEFAULT_SILENCE: Duration = Duration::from_secs(20);
/// How many locks a client may hold by rows at a time unless said: PostgreSQL has a hundred connections for everybody.
pub(crate) const DEFAULT_ROWS: usize = 16;
/// The times of a connection that is silent for less than this could not be told from a slow one.
pub(crate) const LEAST_SILENCE: Duration = Duration::from_secs(2);

/// When the server ends a connection that says nothing, and what follows from it.
///
/// The server counts from the last thing it heard, we from before the last thing that it answered: so who holds a lock
/// by that connection knows of its end first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence(pub(crate) Duration);

impl Silence {
    /// Leases are shorter by as much as an answer may take: a lock that was had when the question came is believed to
    /// be had when the answer comes.
    pub(crate) fn longest_lease(self) -> Duration {
        self.0 - self.longest_answer()
    }

    /// A connection that does not answer for so long is given up.
    pub(crate) fn longest_answer(self) -> Duration {
        self.0 / 4
    }

    /// A connection is tried this often.
    pub(crate) fn tried(self) -> Duration {
        self.0 / 4
    }
}
