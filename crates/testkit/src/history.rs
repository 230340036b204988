//! Whether a recorded history fits a mutex that knows its owner.
//!
//! Tokens say in which order the grants happened, so the question has an exact answer without a search: walk the
//! grants in that order and give each of them, and each release, the earliest point in time at which it can have
//! happened. The history fits if each of these points is before the answer came.

use std::sync::{Arc, Mutex, PoisonError};

use lockhouse_core::{Clock, Moment};

/// From the moment before something was asked to the moment after it was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) asked: Moment,
    pub(crate) answered: Moment,
}

/// One hold as its owner saw it: the one who locked and released.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) token: u64,
    pub(crate) lock: Span,
    pub(crate) release: Span,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    records: Arc<Mutex<Records>>,
}

#[derive(Debug, Default)]
struct Records {
    holds: Vec<Hold>,
    /// Tries that were told that somebody else has it.
    refusals: Vec<Span>,
}

impl History {
    pub(crate) fn held(&self, hold: Hold) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).holds.push(hold);
    }

    pub(crate) fn refused(&self, span: Span) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).refusals.push(span);
    }

    /// Why the history does not fit, or how many holds and refusals it has.
    pub(crate) fn judge(&self) -> Result<(usize, usize), String> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.holds.sort_by_key(|hold| hold.token);
        let Records { holds, refusals } = &*records;
        let mut free_since = Moment::PAST;
        for hold in holds {
            let locked = hold.lock.asked.max(free_since);
            if locked > hold.lock.answered {
                return Err(format!("{hold:?} was granted before its predecessor had let go ({free_since:?})"));
            }
            free_since = hold.release.asked.max(locked);
        }
        if let Some(pair) = holds.windows(2).find(|pair| pair[0].token == pair[1].token) {
            return Err(format!("two grants have the same token: {pair:?}"));
        }
        // It was free for certain from the answer to a release to the next request.
        let gaps = holds.windows(2).map(|pair| (pair[0].release.answered, pair[1].lock.asked));
        for (from, to) in gaps {
            if let Some(refusal) = refusals.iter().find(|span| from < span.asked && span.answered < to) {
                return Err(format!("{refusal:?} was refused while nobody held the lock, from {from:?} to {to:?}"));
            }
        }
        Ok((holds.len(), refusals.len()))
    }
}

/// Runs something and says when.
pub(crate) async fn spanned<T>(work: impl Future<Output = T>) -> (T, Span) {
    let asked = Clock::Boot.now();
    let output = work.await;
    (output, Span { asked, answered: Clock::Boot.now() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(asked: u64, answered: u64) -> Span {
        Span { asked: Moment::from_nanos(asked), answered: Moment::from_nanos(answered) }
    }

    fn hold(token: u64, lock: (u64, u64), release: (u64, u64)) -> Hold {
        Hold { token, lock: span(lock.0, lock.1), release: span(release.0, release.1) }
    }

    #[test]
    fn turns_fit_in_whatever_order_their_answers_came() {
        let history = History::default();
        // The second was answered before the first release was: the release happened somewhere before its answer.
        history.held(hold(2, (11, 25), (40, 41)));
        history.held(hold(1, (10, 20), (22, 30)));
        history.refused(span(21, 23));
        assert_eq!(history.judge(), Ok((2, 1)));
    }

    #[test]
    fn two_inside_at_once_do_not_fit() {
        let history = History::default();
        history.held(hold(1, (10, 20), (30, 31)));
        history.held(hold(2, (11, 25), (40, 41)));
        assert!(history.judge().unwrap_err().contains("before its predecessor had let go"));
    }

    #[test]
    fn a_token_given_twice_does_not_fit() {
        let history = History::default();
        history.held(hold(1, (10, 20), (30, 31)));
        history.held(hold(1, (40, 45), (50, 51)));
        assert!(history.judge().unwrap_err().contains("the same token"));
    }

    #[test]
    fn a_refusal_while_it_was_free_does_not_fit() {
        let history = History::default();
        history.held(hold(1, (10, 20), (30, 31)));
        history.held(hold(2, (40, 45), (50, 51)));
        history.refused(span(32, 39));
        assert!(history.judge().unwrap_err().contains("while nobody held"));
    }
}
