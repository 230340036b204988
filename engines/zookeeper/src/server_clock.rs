//! What time it is at the servers, for people who look at a line: how long somebody has been in it.
//!
//! A server says the time only of nodes that were made, so it is learned from our own. Nothing is decided by it.

use std::sync::atomic::{AtomicI64, Ordering};

use lockhouse_core::Clock;

/// The difference between the servers' wall clock and our boot clock, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    /// Zero when nothing is known: the difference is the time of the machine's start, long after 1970.
    difference: AtomicI64,
}

impl ServerClock {
    /// A node was made a moment ago, at that time of the servers.
    pub(crate) fn learn(&self, millis: i64) {
        self.difference.store(millis - boot_millis(), Ordering::Relaxed);
    }

    /// The time at the servers, if it is known.
    pub(crate) fn now(&self) -> Option<i64> {
        let difference = self.difference.load(Ordering::Relaxed);
        (difference != 0).then(|| boot_millis() + difference)
    }
}

fn boot_millis() -> i64 {
    i64::try_from(Clock::Boot.now().as_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_goes_on_from_what_was_learned() {
        let clock = ServerClock::default();
        assert_eq!(clock.now(), None);
        clock.learn(1_700_000_000_000);
        assert!((0..60_000).contains(&(clock.now().unwrap() - 1_700_000_000_000)));
    }
}
