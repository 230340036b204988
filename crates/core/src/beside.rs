//! Two requests at once, of which one is known to take longer.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Begins both, waits for the long one and then for the short one, which is usually over by then. Whoever waits is
/// woken by the long one alone: each time more costs a change of threads. When the long one fails, the short one has
/// been begun all the same, and is dropped.
///
/// The short one is polled once at first, and again when the long one is done. That must be enough to get it going.
///
/// # Errors
/// What the long one says.
///
/// # Cancellation safety
/// As that of both.
pub async fn beside<T, E, U>(
    long: impl Future<Output = Result<T, E>>,
    short: impl Future<Output = U>,
) -> Result<(T, U), E> {
    let (mut long, mut short) = (pin!(long), pin!(short));
    let (mut begun, mut early) = (false, None);
    let answer = poll_fn(|context| {
        let answer = long.as_mut().poll(context);
        if !std::mem::replace(&mut begun, true)
            && let Poll::Ready(done) = short.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            early = Some(done);
        }
        answer
    });
    let answer = answer.await?;
    Ok(match early {
        Some(done) => (answer, done),
        None => (answer, short.await),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::oneshot;

    use super::*;
    use crate::woken::Woken;

    #[test]
    fn both_are_begun_and_the_long_one_wakes() {
        let (long, answer) = oneshot::channel::<u32>();
        let (short, other) = oneshot::channel::<u32>();
        let begun = Cell::new(false);
        let short_one = async {
            begun.set(true);
            other.await
        };
        let (woken, waker) = Woken::new();
        let mut context = Context::from_waker(&waker);
        let mut both = pin!(beside(answer, short_one));
        assert!(both.as_mut().poll(&mut context).is_pending());
        assert!(begun.get());
        short.send(2).unwrap();
        assert_eq!(woken.times(), 0, "woken by the short one");
        long.send(1).unwrap();
        assert_eq!(woken.times(), 1);
        assert_eq!(both.as_mut().poll(&mut context), Poll::Ready(Ok((1, Ok(2)))));
    }

    #[test]
    fn a_short_one_that_takes_longer_wakes_as_well() {
        let (long, answer) = oneshot::channel::<u32>();
        let (short, other) = oneshot::channel::<u32>();
        let (woken, waker) = Woken::new();
        let mut context = Context::from_waker(&waker);
        let mut both = pin!(beside(answer, other));
        assert!(both.as_mut().poll(&mut context).is_pending());
        long.send(1).unwrap();
        assert!(both.as_mut().poll(&mut context).is_pending());
        short.send(2).unwrap();
        assert_eq!(woken.times(), 2);
        assert_eq!(both.as_mut().poll(&mut context), Poll::Ready(Ok((1, Ok(2)))));
    }

    #[test]
    fn the_failure_of_the_long_one_is_told_at_once() {
        let begun = Cell::new(false);
        let short = async {
            begun.set(true);
            std::future::pending::<()>().await;
        };
        let mut both = pin!(beside(async { Err::<u32, _>("no") }, short));
        assert_eq!(both.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err("no")));
        assert!(begun.get());
    }
}
