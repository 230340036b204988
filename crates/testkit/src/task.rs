//! Tasks that end with whoever waits for them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::{JoinError, JoinHandle};

/// A task that is aborted when this is dropped: a case that fails leaves nobody behind who would disturb others.
#[derive(Debug)]
pub(crate) struct Task<T>(JoinHandle<T>);

/// Starts a task that ends with its handle.
pub(crate) fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Task<T> {
    #[expect(clippy::disallowed_methods, reason = "owned by the handle, which aborts it")]
    Task(tokio::spawn(work))
}

impl<T> Task<T> {
    /// Ends it where it is.
    pub(crate) fn abort(&self) {
        self.0.abort();
    }

    /// Whether it came to its end.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
