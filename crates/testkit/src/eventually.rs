//! Waiting for something that nobody signals.

use std::time::Duration;

use lockhouse_core::Clock;

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until something is so, and says how long that took.
///
/// # Panics
/// When it is not so within the limit.
pub async fn eventually(limit: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let started = Clock::Boot.now();
    loop {
        // The time is taken before the look: a look that comes too late because the machine is busy does not count.
        let passed = Clock::Boot.now().since(started);
        if is_so().await {
            return passed;
        }
        assert!(passed <= limit, "not within {limit:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
