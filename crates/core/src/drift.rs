//! A server's clock against ours.
//!
//! Some servers end leases by their wall clock, which can be set. Their answers carry their time, and we know what our
//! own clock said before the request and after the answer: the difference between both clocks lies in between. Two
//! clocks that run at nearly the same speed keep their difference; when it moves by more than that, one was set.

use std::time::Duration;

use crate::clock::Moment;

/// How much faster or slower one clock may run than the other: one part in this many, as in the validity of a hold.
const SPEED: u64 = 100;
/// What is allowed on top, for clocks that are nudged instead of set.
const NUDGE: Duration = Duration::from_millis(5);

/// What is known about the difference of both clocks, in nanoseconds: it lies in between.
#[derive(Debug, Clone, Copy)]
struct Difference {
    least: i128,
    most: i128,
    at: Moment,
}

/// Watches the server's clock.
#[derive(Debug, Default)]
pub(crate) struct Drift {
    known: Option<Difference>,
}

impl Drift {
    /// Takes note of a server's time, asked for after `sent` and known at `received`. `true` when a clock was set.
    pub(crate) fn observe(&mut self, server_micros: u64, sent: Moment, received: Moment) -> bool {
        let server = i128::from(server_micros) * 1000;
        let seen = Difference {
            least: server - i128::from(received.as_nanos()),
            // The server's time is cut off to microseconds.
            most: server + 1000 - i128::from(sent.as_nanos()),
            at: received,
        };
        let Some(known) = self.known else {
            self.known = Some(seen);
            return false;
        };
        let elapsed = received.since(known.at).as_nanos().try_into().unwrap_or(u64::MAX);
        let speed = i128::from(elapsed / SPEED);
        let nudge = i128::try_from(NUDGE.as_nanos()).unwrap_or(0);
        let (least, most) = (known.least - speed, known.most + speed);
        if seen.most < least - nudge || seen.least > most + nudge {
            self.known = Some(seen);
            return true;
        }
        // Both are true, so what both say is. A nudge can leave nothing in common: then the newer one counts.
        let (least, most) = (least.max(seen.least), most.min(seen.most));
        let common = Difference { least, most, at: received };
        self.known = Some(if least <= most { common } else { seen });
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Both clocks after `seconds`, the server's ahead by `ahead` microseconds, with a round trip of 2 ms.
    fn observe(drift: &mut Drift, seconds: u64, ahead: i64) -> bool {
        let sent = Moment::from_nanos(seconds * SECOND);
        let server = (1_700_000_000_000_000 + seconds * 1_000_000 + 1_000).checked_add_signed(ahead).unwrap();
        drift.observe(server, sent, sent + Duration::from_millis(2))
    }

    #[test]
    fn clocks_of_nearly_the_same_speed_are_fine_for_ever() {
        let mut drift = Drift::default();
        for second in 1..10_000 {
            // Half a percent faster.
            assert!(!observe(&mut drift, second, i64::try_from(second).unwrap() * 5_000));
        }
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_once_in_both_directions() {
        for jump in [120_000_000, -120_000_000, 100_000, -100_000] {
            let mut drift = Drift::default();
            assert!(!observe(&mut drift, 1, 0));
            assert!(!observe(&mut drift, 2, 0));
            assert!(observe(&mut drift, 3, jump), "{jump}");
            assert!(!observe(&mut drift, 4, jump));
        }
    }

    #[test]
    fn a_slow_answer_is_no_jump() {
        let mut drift = Drift::default();
        assert!(!observe(&mut drift, 1, 0));
        let sent = Moment::from_nanos(2 * SECOND);
        let late = sent + Duration::from_secs(60);
        assert!(!drift.observe(1_700_000_002_001_000, sent, late));
        assert!(!observe(&mut drift, 70, 0));
        assert!(observe(&mut drift, 71, 2_000_000));
    }

    #[test]
    fn small_nudges_do_not_add_up_to_blindness() {
        let mut drift = Drift::default();
        assert!(!observe(&mut drift, 1, 0));
        for second in 2..100 {
            observe(&mut drift, second, 0);
        }
        assert!(observe(&mut drift, 100, 60_000));
    }
}
