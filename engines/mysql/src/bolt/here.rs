//! An order that is carried out by whoever gave it, and by the keeper when that one gives up.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bolt::connection::Order;
use crate::bolt::worker::Worker;
use crate::store::PATIENCE;

/// What is at work on the keeper's runtime. It ends with this.
#[derive(Debug)]
pub(crate) struct Tasks {
    keeper: Handle,
    tasks: Mutex<JoinSet<()>>,
}

impl Tasks {
    /// None yet. Called on the keeper's runtime.
    pub(crate) fn new() -> Self {
        Self { keeper: Handle::current(), tasks: Mutex::default() }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.keeper);
    }
}

/// An order on a connection that was lent for it. Dropped before it is carried out, the keeper does the rest.
///
/// The connection's socket is the keeper's, so either can go on where the other was.
pub(crate) struct Here {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    tasks: Arc<Tasks>,
}

impl Here {
    pub(crate) fn new(worker: OwnedMutexGuard<Worker>, order: Order, tasks: Arc<Tasks>) -> Self {
        worker.state.begins();
        let mut lent = Lent { worker, is_done: false };
        lent.worker.is_lent = true;
        let work = async move {
            let opened = lent.worker.obey(order).await;
            lent.is_done = opened.is_ok();
            drop(lent);
            if let Ok(opened) = opened {
                opened.tell();
            }
        };
        Self { work: Some(Box::pin(work)), tasks }
    }
}

impl Future for Here {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.work else { return Poll::Ready(()) };
        std::task::ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(())
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.tasks.spawn(async move { drop(timeout(PATIENCE, work).await) });
        }
    }
}

/// A connection that was lent. It ends if nobody can know what became of what was sent.
struct Lent {
    worker: OwnedMutexGuard<Worker>,
    is_done: bool,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.worker.is_lent = false;
        if !self.is_done || self.worker.state.is_over() {
            self.worker.end();
        }
        self.worker.state.ends();
    }
}
