//! The one rule, pure.
//!
//! A lock has a capacity, a claim has a weight. Walking the line in order, a claim is granted while the weights so far
//! fit into the capacity; the first one that does not fit stops everybody behind it. A mutex is capacity 1 and weight
//! 1, a semaphore of n is capacity n, a read-write lock is capacity `u32::MAX` where a reader weighs 1 and a writer
//! everything.
//!
//! Every engine decides with [`Room`]: those that read the whole line through [`granted`], those that keep a running
//! sum by admitting one claim at a time. Both are the same walk.

/// The capacity and weight of the kinds of lock that do not leave them to the user.
pub mod kind {
    /// A mutex: one holder.
    pub const MUTEX: u32 = 1;
    /// The capacity of a read-write lock, and the weight of its writer.
    pub const WHOLE: u32 = u32::MAX;
    /// The weight of a reader.
    pub const READER: u32 = 1;
}

/// What is left of a lock's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    left: u32,
}

impl Room {
    /// The room in a lock of this capacity when nobody is in.
    #[must_use]
    pub const fn new(capacity: u32) -> Self {
        Self { left: capacity }
    }

    /// The room that is left when holders of this total weight are in.
    ///
    /// Holders always fit, since each of them was admitted; a total above the capacity leaves no room.
    #[must_use]
    pub fn beside(capacity: u32, held: u64) -> Self {
        let left = u64::from(capacity).saturating_sub(held);
        Self { left: u32::try_from(left).unwrap_or(u32::MAX) }
    }

    /// Lets a claim of this weight in, if it fits.
    pub const fn admit(&mut self, weight: u32) -> bool {
        match self.left.checked_sub(weight) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

/// How many claims at the front of a line are granted.
///
/// ```
/// use lockhouse_core::line::granted;
///
/// assert_eq!(granted(1, [1, 1]), 1);                          // a mutex
/// assert_eq!(granted(u32::MAX, [1, 1, u32::MAX, 1]), 2);      // two readers; the writer stops the third
/// assert_eq!(granted(3, [2, 2, 1]), 1);                       // the one that does not fit stops the one that would
/// ```
pub fn granted(capacity: u32, weights: impl IntoIterator<Item = u32>) -> usize {
    let mut room = Room::new(capacity);
    weights.into_iter().take_while(|&weight| room.admit(weight)).count()
}

/// Where a newcomer of this priority stands among the waiters: behind everyone of its own priority or a higher one.
///
/// Holders are not asked: nobody goes ahead of them.
pub fn place_among(waiters: impl IntoIterator<Item = i32>, priority: i32) -> usize {
    waiters.into_iter().take_while(|&ahead| ahead >= priority).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn weights() -> impl Strategy<Value = (u32, Vec<u32>)> {
        (1u32..6).prop_flat_map(|capacity| (Just(capacity), prop::collection::vec(1..=capacity, 0..12)))
    }

    proptest! {
        #[test]
        fn the_granted_fit_and_the_next_does_not((capacity, line) in weights()) {
            let n = granted(capacity, line.iter().copied());
            let sum: u32 = line[..n].iter().sum();
            prop_assert!(sum <= capacity);
            prop_assert!(n == line.len() || sum + line[n] > capacity);
        }

        #[test]
        fn leaving_the_line_takes_no_grant_away((capacity, line) in weights(), at in 0usize..12) {
            prop_assume!(at < line.len());
            let before = granted(capacity, line.iter().copied());
            let mut after = line.clone();
            after.remove(at);
            let still = granted(capacity, after);
            let left = usize::from(at < before);
            prop_assert!(still >= before - left);
        }

        #[test]
        fn joining_behind_the_holders_takes_no_grant_away(
            (capacity, line) in weights(),
            weight in 1u32..6,
            at in 0usize..12,
        ) {
            let before = granted(capacity, line.iter().copied());
            let mut after = line.clone();
            after.insert(at.clamp(before, line.len()), weight);
            prop_assert!(granted(capacity, after) >= before);
        }

        #[test]
        fn one_at_a_time_is_the_same_walk((capacity, line) in weights()) {
            let mut held = 0u64;
            let mut n = 0;
            while n < line.len() && Room::beside(capacity, held).admit(line[n]) {
                held += u64::from(line[n]);
                n += 1;
            }
            prop_assert_eq!(n, granted(capacity, line));
        }

        #[test]
        fn nobody_of_the_same_or_a_higher_priority_is_passed(
            mut line in prop::collection::vec(-3i32..4, 0..12),
            priority in -3i32..4,
        ) {
            line.sort_by(|a, b| b.cmp(a));
            let at = place_among(line.iter().copied(), priority);
            prop_assert!(line[..at].iter().all(|&ahead| ahead >= priority));
            prop_assert!(line[at..].iter().all(|&behind| behind < priority));
        }
    }

    #[test]
    fn a_zero_capacity_grants_nobody() {
        assert_eq!(granted(0, [1]), 0);
    }
}
