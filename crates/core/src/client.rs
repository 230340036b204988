//! A client: its two sides, and the doors to every kind of lock.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::SetOnce;

use crate::cell::CellHandle;
use crate::checkup::Checkup;
use crate::claim::PublicId;
use crate::clock::{Clock, Moment};
use crate::election::Election;
use crate::engine::{Connector, Engine, Side};
use crate::error::{Error, Kind, Result};
use crate::guarantees::{Guarantees, Needs};
use crate::keeper;
use crate::ledger::Ledger;
use crate::line::kind;
use crate::meters::Meters;
use crate::mutex::Mutex;
use crate::name::Name;
use crate::owner::Owner;
use crate::reentry::Reentry;
use crate::request::Request;
use crate::rwlock::RwLock;
use crate::semaphore::Semaphore;
use crate::several::Several;
use crate::survey::Line;
use crate::wait::LONGEST_REQUEST;

/// What all locks of one client share.
pub(crate) struct Client {
    pub(crate) front: Arc<dyn Engine>,
    pub(crate) guarantees: Guarantees,
    /// No claim is made for longer than this.
    pub(crate) longest_lease: Duration,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Clock,
    pub(crate) meters: Meters,
    pub(crate) reentry: Reentry,
    /// Who claims when nobody is named.
    pub(crate) owner: Owner,
    /// When the last claim was sent that the engine answered, in nanoseconds of the clock.
    answered: AtomicU64,
    drained: Arc<SetOnce<()>>,
}

impl Client {
    /// The engine has answered a claim that was sent then.
    pub(crate) fn answered(&self, sent: Moment) {
        self.answered.fetch_max(sent.as_nanos(), Ordering::Relaxed);
    }

    /// When the last one was sent that it answered.
    pub(crate) fn last_answered(&self) -> Moment {
        Moment::from_nanos(self.answered.load(Ordering::Relaxed))
    }

    /// One request of the front's with a time limit and its context.
    pub(crate) async fn call<T>(
        &self,
        operation: &'static str,
        name: Option<&Name>,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let answer = tokio::time::timeout(LONGEST_REQUEST, request).await.unwrap_or_else(|_| {
            let what = format!("no answer within {LONGEST_REQUEST:?}");
            Err(Error::new(Kind::TimedOut, what).unknown().help("see whether the engine is overloaded or out of reach"))
        });
        answer.map_err(|error| error.engine(self.guarantees.engine).during(operation, name))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.front).finish()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The keeper still withdraws what was dropped, and ends.
        self.ledger.close();
    }
}

/// Locks on one engine: a client. Cheap to clone; all clones are the same client.
///
/// ```
/// use lockhouse_core::{Locks, Memory};
///
/// # async fn example() -> Result<(), lockhouse_core::Error> {
/// let locks = Locks::new(Memory::new()).await?;
/// let guard = locks.mutex("orders/42").lock().await?;
/// assert!(locks.mutex("orders/42").try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Locks {
    client: Arc<Client>,
}

impl Locks {
    /// Connects to an engine: once for the caller, on the caller's runtime, and once for the keeper, on its own thread.
    ///
    /// # Errors
    /// What the engine says when it cannot be reached or refuses us.
    ///
    /// # Cancellation safety
    /// A dropped future leaves no connection and no thread behind.
    pub async fn new(connector: impl Connector) -> Result<Self> {
        let ledger = Arc::new(Ledger::new(Clock::Boot));
        let drained = Arc::new(SetOnce::new());
        let unfinished = CloseOnDrop(Some(Arc::clone(&ledger)));
        let front = keeper::start(Arc::new(connector), Arc::clone(&ledger), Arc::clone(&drained)).await?;
        unfinished.finish();
        Ok(Self::with(front, ledger, Clock::Boot, drained))
    }

    /// A client whose keeper is a task of the present runtime and whose clock is the runtime's, which a test can pause.
    /// For simulations only: a blocked runtime stops its keeper.
    ///
    /// # Errors
    /// What the engine says when it cannot be reached or refuses us.
    ///
    /// # Cancellation safety
    /// A dropped future leaves nothing behind.
    pub async fn simulated(connector: impl Connector) -> Result<Self> {
        let clock = Clock::Simulated;
        let ledger = Arc::new(Ledger::new(clock));
        let drained = Arc::new(SetOnce::new());
        let engine = connector.connect(Side::Keeper).await?;
        let front = connector.connect(Side::Front).await?;
        let meters = Meters::new(engine.guarantees().engine);
        let keep = keeper::keep(Arc::clone(&ledger), engine, clock, meters, Arc::clone(&drained));
        #[expect(clippy::disallowed_methods, reason = "owned by the ledger: the task ends when the client is dropped")]
        tokio::spawn(keep);
        Ok(Self::with(front, ledger, clock, drained))
    }

    fn with(front: Arc<dyn Engine>, ledger: Arc<Ledger>, clock: Clock, drained: Arc<SetOnce<()>>) -> Self {
        let (guarantees, longest_lease) = (front.guarantees(), front.longest_lease());
        let meters = Meters::new(guarantees.engine);
        let (reentry, owner) = (Reentry::default(), Owner::process());
        let answered = AtomicU64::new(Moment::PAST.as_nanos());
        let client =
            Client { front, guarantees, longest_lease, ledger, clock, meters, reentry, owner, answered, drained };
        Self { client: Arc::new(client) }
    }

    /// A mutex: one holder.
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex { request: Request::new(&self.client, name.as_ref(), kind::MUTEX, kind::MUTEX) }
    }

    /// A read-write lock: many readers together, or one writer alone.
    #[must_use]
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock { request: Request::new(&self.client, name.as_ref(), kind::READER, kind::WHOLE) }
    }

    /// A semaphore of that many permits.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore { request: Request::new(&self.client, name.as_ref(), 1, permits) }
    }

    /// An election: who holds the mutex of that name leads.
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election { request: Request::new(&self.client, name.as_ref(), kind::MUTEX, kind::MUTEX) }
    }

    /// Several mutexes at once.
    #[must_use]
    pub fn several<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Several {
        Several::new(&self.client, names)
    }

    /// A cell: a small versioned value, for optimistic locking and for checking tokens.
    #[must_use]
    pub fn cell(&self, name: impl AsRef<str>) -> CellHandle {
        CellHandle::new(&self.client, name.as_ref())
    }

    /// What the engine, in its topology, can promise.
    #[must_use]
    pub fn guarantees(&self) -> &Guarantees {
        &self.client.guarantees
    }

    /// The longest lease that the engine can keep: a longer TTL is cut to it. A week, unless claims are bound to a
    /// session that ends sooner.
    #[must_use]
    pub fn longest_lease(&self) -> Duration {
        self.client.longest_lease
    }

    /// Refuses an engine that promises less than a program needs.
    ///
    /// # Errors
    /// [`Kind::Unsupported`], naming everything that is missing.
    pub fn require(&self, needs: &Needs) -> Result<()> {
        needs.check(&self.client.guarantees)
    }

    /// Every line under a prefix, for people. Never for deciding whether to proceed.
    ///
    /// # Errors
    /// What the engine says.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect.
    pub async fn survey(&self, prefix: impl AsRef<str>) -> Result<Vec<Line>> {
        self.client.call("survey", None, self.client.front.survey(prefix.as_ref())).await
    }

    /// The line of one name, for people; `None` when nobody is in it.
    ///
    /// # Errors
    /// A bad name, or what the engine says.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect.
    pub async fn line(&self, name: impl AsRef<str>) -> Result<Option<Line>> {
        let name = Name::new(name)?;
        let lines = self.client.call("survey", Some(&name), self.client.front.survey(name.as_str())).await?;
        Ok(lines.into_iter().find(|line| line.name == name))
    }

    /// Ends a claim as an operator; its holder is told. `false` when there is no such claim.
    ///
    /// # Errors
    /// A bad name, or what the engine says.
    ///
    /// # Cancellation safety
    /// A dropped future may have evicted the claim.
    pub async fn evict(&self, name: impl AsRef<str>, claim: PublicId) -> Result<bool> {
        let name = Name::new(name)?;
        self.client.call("evict", Some(&name), self.client.front.evict(&name, &claim)).await
    }

    /// What the server says of itself, for people: its version, its clock, the settings that matter for locks.
    ///
    /// # Errors
    /// What the engine says.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect.
    pub async fn checkup(&self) -> Result<Checkup> {
        self.client.call("checkup", None, self.client.front.checkup()).await
    }

    /// Gives everything back and ends the keeper: what is still held is lost, what was dropped is withdrawn.
    ///
    /// # Errors
    /// [`Kind::TimedOut`] when the engine did not confirm everything within the limit: the keeper goes on trying as
    /// long as the process lives, and leases end in any case.
    ///
    /// # Cancellation safety
    /// Closing goes on when the future is dropped.
    pub async fn close(self, limit: Duration) -> Result<()> {
        self.client.ledger.close();
        match tokio::time::timeout(limit, self.client.drained.wait()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::new(Kind::TimedOut, format!("not everything was given back within {limit:?}"))
                .unknown()
                .help("what is left ends with its lease")
                .engine(self.client.guarantees.engine)
                .during("close", None)),
        }
    }
}

/// Ends a keeper whose client was dropped while it connected.
struct CloseOnDrop(Option<Arc<Ledger>>);

impl CloseOnDrop {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(ledger) = self.0.take() {
            ledger.close();
        }
    }
}
