//! How a lock is held.

use std::str::FromStr;
use std::time::Duration;

use lockhouse_core::{CrashFrees, Error, Exclusion, Guarantees, Kind, TokenSurvives, WakeUp};

use crate::error::ENGINE;

/// The shortest lease: some round trips to a server in the same building, and a slow one among them.
const MIN_TTL: Duration = Duration::from_millis(100);
/// A crashed holder's lock is given to the next one this much after its lease, at the latest.
const AFTER_LEASE: Duration = Duration::from_millis(250);

/// How a lock is held: what keeps others out while it is.
///
/// Whatever it is, claims stand in one line in the tables, with a lease each: clients of every kind exclude each other.
/// A lock that is held by a session or by a row also keeps out programs that know nothing of Lockhouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Hold {
    /// By the lease alone. No connection is bound to it.
    #[default]
    Lease,
    /// Also by `GET_LOCK`: many locks of a client on few connections. One holder, so neither readers nor permits.
    Session,
    /// Also by the lock's row, as by `SELECT … FOR UPDATE`, in a transaction of its own: a connection for each lock.
    Row,
}

impl Hold {
    /// What it promises, when the server honours a connection that it does not hear of for so long.
    pub(crate) fn guarantees(self, silence: Duration) -> Guarantees {
        let by_lease = self == Self::Lease;
        Guarantees {
            engine: ENGINE,
            exclusion: Exclusion::Server,
            token: TokenSurvives::Crash,
            fair: true,
            // `GET_LOCK` has no shared mode.
            shared: self != Self::Session,
            permits: self != Self::Session,
            priority: true,
            cells: true,
            wake_up: WakeUp::Poll,
            crash_frees: CrashFrees::AfterLease(if by_lease { AFTER_LEASE } else { silence }),
            outlives_process: by_lease,
            min_ttl: MIN_TTL,
        }
    }
}

impl FromStr for Hold {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "lease" => Ok(Self::Lease),
            "session" => Ok(Self::Session),
            "row" => Ok(Self::Row),
            other => Err(Error::new(Kind::Invalid, format!("a lock cannot be held by {other:?}"))
                .help("write ?hold=lease, ?hold=session or ?hold=row")
                .engine(ENGINE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hold_is_told_what_there_is() {
        for (text, hold) in [("lease", Hold::Lease), ("session", Hold::Session), ("row", Hold::Row)] {
            assert_eq!(text.parse::<Hold>().unwrap(), hold);
        }
        let error = "table".parse::<Hold>().unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.to_string().contains("hold=session"), "{error}");
    }
}
