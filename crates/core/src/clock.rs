//! Time: the boot clock, and a stand-in for it that tests can steer.

use std::cell::Cell;
use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use tokio::time::Instant;

/// A point in time on the machine's boot clock, which runs on while the machine sleeps and is never set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Before everything.
    pub const PAST: Self = Self(0);
    /// After everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment this many nanoseconds after the machine started.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the machine started.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// Which clock a client or an engine goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The machine's boot clock.
    #[default]
    Boot,
    /// The clock of the tokio runtime, which a test can pause and steer.
    Simulated,
}

/// The longest single sleep on the boot clock. Timers of the runtime stand still while the machine sleeps and the boot
/// clock does not, so a long sleep is cut into pieces: after waking up, nothing is noticed later than this.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Far enough to be never, near enough for every timer.
const FAR: Duration = Duration::from_secs(86_400 * 365);

impl Clock {
    /// The present moment.
    #[must_use]
    pub fn now(self) -> Moment {
        match self {
            Self::Boot => boot_now(),
            Self::Simulated => simulated_now(),
        }
    }

    /// Sleeps until that moment has come.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect.
    pub async fn sleep_until(self, moment: Moment) {
        loop {
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            let nap = match self {
                Self::Boot => left.min(LONGEST_NAP),
                Self::Simulated => left.min(FAR),
            };
            tokio::time::sleep(nap).await;
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// On macOS `CLOCK_MONOTONIC` goes on while the machine sleeps, which is what the name above says elsewhere.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

fn boot_now() -> Moment {
    let time = rustix::time::clock_gettime(BOOT_CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Moment(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}

thread_local! {
    /// When the simulated clock of this thread began.
    static START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The simulated clock of this thread begins now, on the present runtime's clock.
pub(crate) fn start_simulated() {
    START.set(Some(Instant::now()));
}

/// Begins an hour in, so that no simulated moment is near [`Moment::PAST`].
fn simulated_now() -> Moment {
    const HOUR: Duration = Duration::from_secs(3600);
    let now = Instant::now();
    let start = START.get().unwrap_or_else(|| {
        START.set(Some(now));
        now
    });
    Moment::PAST + HOUR + now.saturating_duration_since(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeping_on_the_boot_clock_is_never_early() {
        let start = Clock::Boot.now();
        Clock::Boot.sleep_until(start + Duration::from_millis(20)).await;
        assert!(Clock::Boot.now().since(start) >= Duration::from_millis(20));
    }

    #[test]
    fn moments_do_not_overflow() {
        assert_eq!(Moment::NEVER + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::PAST - Duration::MAX, Moment::PAST);
        assert_eq!(Moment::PAST.since(Moment::NEVER), Duration::ZERO);
    }
}
