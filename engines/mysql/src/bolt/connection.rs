//! One connection that holds locks, and the task that it belongs to.
//!
//! The task runs on the keeper's runtime, so that whoever blocks its own runtime loses no lock, and a caller that gives
//! up waiting for an answer costs nobody one. Only what is asked of a connection that holds nothing else is done by the
//! caller itself, which saves a change of threads: [`Here`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockhouse_core::{ClaimId, Clock, Moment, Name};
use mysql_async::Opts;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};
use tokio::time::timeout;

use crate::bolt::bolts::{Bolts, Number};
use crate::bolt::grip::{Entrance, Grip};
use crate::bolt::here::{Here, Tasks};
use crate::bolt::worker::Worker;
use crate::error::Fault;
use crate::statement::Value;

/// What a connection gets to answer. Whoever wanted it goes to another one then.
pub(crate) const PROMPT: Duration = Duration::from_secs(1);
/// A connection that has shut something is there for ever, as far as it knows.
const FAR: Duration = Duration::from_secs(86_400 * 365);

/// What a connection is told to do.
pub(crate) enum Order {
    /// Shut a claim's bolt.
    Shut(Shutting, oneshot::Sender<Outcome>),
    /// Let readers in beside it. It says whether it has it still.
    Weaken(ClaimId, Name, oneshot::Sender<bool>),
    /// Open it. It says whether the claim has left its line with that, or why the server refused.
    Open(Opening, oneshot::Sender<Left>),
    /// Say something, so that the server knows that we are there.
    Speak(oneshot::Sender<()>),
}

impl Order {
    /// How much the connection holds when it may be carried out by whoever gives it: nothing but what it is about.
    fn holds(&self) -> Option<usize> {
        match self {
            Self::Shut(shutting, _) => shutting.entrance.is_some().then_some(0),
            Self::Open(..) => Some(1),
            Self::Weaken(..) | Self::Speak(_) => None,
        }
    }
}

/// A bolt that is to be shut.
#[derive(Debug)]
pub(crate) struct Shutting {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    /// For a reader, or for one alone.
    pub(crate) shared: bool,
    /// Its claim asks for its turn by the same request.
    pub(crate) entrance: Option<Box<Entrance>>,
}

/// A bolt that is to be opened.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    /// Its claim leaves its line with it if it can; its lease.
    pub(crate) leaves: Option<Value>,
}

/// Whether a claim has left its line when its bolt was opened.
pub(crate) type Left = Result<bool, Fault>;

/// What became of shutting a bolt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is shut. The token of a claim that asked for its turn with it.
    Shut(Option<u64>),
    /// Another program has the lock.
    Busy,
    /// Nobody wants it any more.
    Unwanted,
    /// Nothing was sent: this connection does not answer, and another one may.
    NotSent,
    /// It failed.
    Failed(Fault),
}

/// An order that was given.
pub(crate) struct Given<T> {
    /// Whoever gave it carries it out.
    here: Option<Here>,
    answer: oneshot::Receiver<T>,
}

impl<T> Given<T> {
    /// The answer; `None` when the connection ended before it had one.
    ///
    /// # Cancellation safety
    /// The order is carried out all the same.
    pub(crate) async fn answer(self) -> Option<T> {
        if let Some(here) = self.here {
            here.await;
        }
        self.answer.await.ok()
    }
}

/// A connection, as those see it who tell it what to do.
pub(crate) struct Connection {
    pub(crate) number: Number,
    orders: mpsc::UnboundedSender<Order>,
    state: Arc<State>,
    worker: Arc<Mutex<Worker>>,
    tasks: Arc<Tasks>,
}

/// What can be seen from outside.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Orders that are not carried out yet.
    orders: AtomicUsize,
    /// Since when the present one is; 0 when there is none.
    busy_since: AtomicU64,
    /// Bolts that it has shut.
    pub(crate) shut: AtomicUsize,
    over: AtomicBool,
}

impl State {
    /// It has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.holds(0)
    }

    /// Whether it has shut so many.
    pub(crate) fn holds(&self, bolts: usize) -> bool {
        self.shut.load(Ordering::Acquire) == bolts
    }

    pub(crate) fn begins(&self) {
        self.busy_since.store(Clock::Boot.now().as_nanos(), Ordering::Release);
    }

    pub(crate) fn ends(&self) {
        self.busy_since.store(0, Ordering::Release);
        self.orders.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Connection {
    /// A connection that is made by the first order, and has a task that carries orders out until it ends.
    pub(crate) fn new(
        number: Number,
        options: Opts,
        lasts: Duration,
        grip: Arc<Grip>,
        bolts: Arc<Bolts>,
        tasks: Arc<Tasks>,
    ) -> Self {
        let (orders, receiver) = mpsc::unbounded_channel();
        let (state, heard) = (Arc::<State>::default(), Clock::Boot.now());
        let worker =
            Worker { number, lasts, grip, bolts, state: Arc::clone(&state), heard, conn: None, is_lent: false };
        let worker = Arc::new(Mutex::new(worker));
        tasks.spawn(Task { worker: Arc::clone(&worker), state: Arc::clone(&state) }.work(options, receiver));
        Self { number, orders, state, worker, tasks }
    }

    /// Gives it an order; `None` when it has ended.
    pub(crate) fn give<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<Given<T>> {
        let (sender, answer) = oneshot::channel();
        let order = order(sender);
        let here = match order.holds().and_then(|holds| self.lend(holds)) {
            Some(worker) => Some(Here::new(worker, order, Arc::clone(&self.tasks))),
            None => {
                self.tell(order).then_some(())?;
                None
            }
        };
        Some(Given { here, answer })
    }

    /// Has its task carry an order out. `false` when it has ended.
    pub(crate) fn tell(&self, order: Order) -> bool {
        self.state.orders.fetch_add(1, Ordering::AcqRel);
        self.orders.send(order).is_ok()
    }

    /// The connection itself, if it has nothing to do, holds so much, and is sure to answer.
    fn lend(&self, holds: usize) -> Option<OwnedMutexGuard<Worker>> {
        self.state.orders.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).ok()?;
        let worker = Arc::clone(&self.worker).try_lock_owned().ok();
        let worker = worker.filter(|worker| self.state.holds(holds) && worker.is_prompt());
        if worker.is_none() {
            self.state.orders.fetch_sub(1, Ordering::AcqRel);
        }
        worker
    }

    /// It has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.orders.is_closed() || self.state.is_over()
    }

    /// How many orders it has yet to carry out.
    pub(crate) fn orders(&self) -> usize {
        self.state.orders.load(Ordering::Acquire)
    }

    /// It has shut nothing and has nothing to do.
    pub(crate) fn is_free(&self) -> bool {
        self.orders() == 0 && !self.state.has_any()
    }

    /// It has been at one thing for so long that it may never answer.
    pub(crate) fn is_stuck(&self) -> bool {
        let since = self.state.busy_since.load(Ordering::Acquire);
        since != 0 && Clock::Boot.now().since(Moment::from_nanos(since)) > PROMPT
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("number", &self.number).field("state", &self.state).finish_non_exhaustive()
    }
}

struct Task {
    worker: Arc<Mutex<Worker>>,
    state: Arc<State>,
}

impl Task {
    async fn work(self, options: Opts, mut orders: mpsc::UnboundedReceiver<Order>) {
        self.carry_out(&options, &mut orders).await;
        orders.close();
        self.worker.lock().await.end();
        while let Ok(order) = orders.try_recv() {
            give_up(order, None);
        }
    }

    async fn carry_out(&self, options: &Opts, orders: &mut mpsc::UnboundedReceiver<Order>) {
        let mut rest = Duration::ZERO;
        loop {
            let order = match timeout(rest, orders.recv()).await {
                Ok(Some(order)) => Some(order),
                Ok(None) => return,
                Err(_) => None,
            };
            let mut worker = self.worker.lock().await;
            if let Some(order) = order {
                if self.state.is_over() {
                    return give_up(order, None);
                }
                self.state.begins();
                if let Err(fault) = worker.connect(options).await {
                    worker.end();
                    return give_up(order, Some(fault));
                }
                let Ok(opened) = worker.obey(order).await else { return };
                rest = worker.rest().unwrap_or(FAR);
                drop(worker);
                self.state.ends();
                opened.tell();
            } else {
                rest = worker.rest().unwrap_or(FAR);
                if rest.is_zero() {
                    return worker.end();
                }
            }
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.state.end();
        // Who has it at present ends with its runtime.
        if let Ok(mut worker) = self.worker.try_lock() {
            worker.end();
        }
    }
}

/// An order that could not even be sent: because of that, or because the connection ended before.
fn give_up(order: Order, fault: Option<Fault>) {
    match order {
        Order::Shut(_, answer) => drop(answer.send(fault.map_or(Outcome::NotSent, Outcome::Failed))),
        // What the connection had shut is open with its end. Whoever waits for the others learns it by their silence.
        Order::Open(_, answer) => drop(answer.send(Ok(false))),
        Order::Weaken(..) | Order::Speak(_) => {}
    }
}
