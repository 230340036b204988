//! Dropping a future after every k-th poll.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// A future that is not woken for this long will not be polled again soon.
const ASLEEP: Duration = Duration::from_millis(300);

/// Polls a future at most `polls` times and drops it; `Some` if it was ready by then. A future that falls asleep is
/// dropped as well.
pub(crate) async fn polled<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut done = 0;
    let mut future = pin!(future);
    let few = poll_fn(|context| {
        if done == polls {
            return Poll::Ready(None);
        }
        done += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if done == polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(ASLEEP, few).await.ok().flatten()
}

/// Drops the future that is made after 0, 1, 2, … polls, until one gets to its end. Says how many were dropped.
pub(crate) async fn dropped_after_every_poll<F: Future>(mut make: impl FnMut(u32) -> F) -> (u32, F::Output) {
    for polls in 0.. {
        if let Some(output) = polled(polls, make(polls)).await {
            return (polls, output);
        }
        assert!(polls < 10_000, "the future never gets to its end");
    }
    unreachable!("some future gets to its end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_future_is_dropped_after_exactly_so_many_polls() {
        let future = || async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            7
        };
        assert_eq!(polled(2, future()).await, None);
        assert_eq!(polled(3, future()).await, Some(7));
        assert_eq!(dropped_after_every_poll(|_| future()).await, (3, 7));
    }
}
