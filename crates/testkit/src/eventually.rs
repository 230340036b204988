//! Waiting for something that nobody signals.

use std::fmt::Debug;
use std::time::Duration;

use lockhouse_core::Clock;

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until something is so, and says how long that took.
///
/// # Panics
/// When it is not so within the limit.
pub async fn eventually(limit: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    eventually_none(limit, what, async || (!is_so().await).then_some("it is not so")).await
}

/// Looks until nothing is to be seen any more, and says how long that took.
///
/// # Panics
/// When something is still there after the limit, with what that is.
pub(crate) async fn eventually_none<T: Debug>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> Duration {
    let started = Clock::Boot.now();
    loop {
        // The time is taken before the look: a look that comes too late because the machine is busy does not count.
        let passed = Clock::Boot.now().since(started);
        let Some(seen) = look().await else { return passed };
        assert!(passed <= limit, "not within {limit:?}: {what}: {seen:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
