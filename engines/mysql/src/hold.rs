//! How a lock is held.

use std::str::FromStr;
use std::time::Duration;

use lockhouse_core::{CrashFrees, Error, Exclusion, Guarantees, Kind, TokenSurvives, WakeUp};

use crate::error::ENGINE;

/// The shortest lease: some round trips to a server in the same building, and a slow one among them.
const MIN_TTL: Duration = Duration::from_millis(100);
/// A crashed holder's row with a lease is given to the next one this much after its lease, at the latest.
const AFTER_LEASE: Duration = Duration::from_millis(250);
/// A process that ends closes its connections, and a server that waits for a request notices at once.
const CONNECTION_ENDS: Duration = Duration::from_secs(2);

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Hold {
    /// By a row with a lease, which every client of Lockhouse respects.
    #[default]
    Lease,
    /// By a connection that has `GET_LOCK`: excludes every other user of the same key.
    Session,
    /// By a transaction that has locked the lock's row: excludes every other `SELECT … FOR UPDATE` of it.
    Row,
}

impl Hold {
    /// What it promises.
    #[must_use]
    pub fn guarantees(self) -> Guarantees {
        let lease = self == Self::Lease;
        Guarantees {
            engine: ENGINE,
            exclusion: Exclusion::Server,
            token: TokenSurvives::Crash,
            fair: lease,
            // `GET_LOCK` has no shared mode.
            shared: self != Self::Session,
            permits: lease,
            priority: lease,
            cells: true,
            wake_up: WakeUp::Poll,
            crash_frees: match lease {
                true => CrashFrees::AfterLease(AFTER_LEASE),
                false => CrashFrees::Within(CONNECTION_ENDS),
            },
            outlives_process: lease,
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
