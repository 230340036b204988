//! A few requests at once, of which the first answer counts.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Requests that are under way, to several servers one after the other where one is slow.
///
/// A `FuturesUnordered` wakes its own task each time it has polled all that it has, and a runtime of several threads
/// rouses another of them for that, with every request. This does not: its task is woken by an answer alone.
#[derive(Debug)]
pub struct Race<F> {
    running: Vec<Pin<Box<F>>>,
}

impl<F: Future> Race<F> {
    /// Nothing is under way yet.
    pub const fn new() -> Self {
        Self { running: Vec::new() }
    }

    /// One more takes part. It begins when the next outcome is asked for.
    pub fn push(&mut self, future: F) {
        self.running.push(Box::pin(future));
    }

    /// The outcome of the next that is done. `None` when there is no other.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect: all go on when it is asked for again.
    pub async fn next(&mut self) -> Option<F::Output> {
        if self.running.is_empty() {
            return None;
        }
        poll_fn(|context| {
            for at in 0..self.running.len() {
                if let Poll::Ready(outcome) = self.running[at].as_mut().poll(context) {
                    drop(self.running.swap_remove(at));
                    return Poll::Ready(Some(outcome));
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl<F: Future> Default for Race<F> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use tokio::sync::oneshot;

    use super::*;
    use crate::woken::Woken;

    #[test]
    fn the_first_that_is_done_comes_first_and_nobody_is_woken_before() {
        let (slow, answer) = oneshot::channel();
        let (fast, other) = oneshot::channel();
        let mut race = Race::new();
        race.push(answer);
        race.push(other);
        let (woken, waker) = Woken::new();
        let mut context = Context::from_waker(&waker);
        let mut poll = |race: &mut Race<_>| Box::pin(race.next()).as_mut().poll(&mut context);
        assert_eq!(poll(&mut race), Poll::Pending);
        assert_eq!(woken.times(), 0, "it woke itself");
        fast.send(2).unwrap();
        assert_eq!(woken.times(), 1);
        assert_eq!(poll(&mut race), Poll::Ready(Some(Ok(2))));
        assert_eq!(poll(&mut race), Poll::Pending);
        slow.send(1).unwrap();
        assert_eq!(poll(&mut race), Poll::Ready(Some(Ok(1))));
        assert_eq!(poll(&mut race), Poll::Ready(None));
    }
}
