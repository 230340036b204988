//! Faults from a seed: an engine around an engine.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use crate::checkup::Checkup;
use crate::claim::{Claim, PublicId};
use crate::engine::{Cell, Engine, Renewal, Standing, Withdrawal, Write, Written};
use crate::error::{Error, Kind, Result};
use crate::guarantees::Guarantees;
use crate::name::Name;
use crate::survey::Line;

/// How often what goes wrong: each a probability from 0 to 1, and the longest delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// The request or its answer takes up to this long.
    pub delay: Duration,
    /// The request never arrives.
    pub lose_request: f64,
    /// It is carried out, and the answer never arrives.
    pub lose_reply: f64,
    /// It is carried out, and once more later.
    pub duplicate: f64,
    /// The engine refuses it.
    pub fail: f64,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self =
        Self { delay: Duration::ZERO, lose_request: 0.0, lose_reply: 0.0, duplicate: 0.0, fail: 0.0 };
}

/// The connection of one client to an engine, with faults from a seed. Give each client one of its own.
///
/// Delays, losses and duplicates are those of a network: requests overtake each other, and one that was given up on may
/// still arrive. The same seed gives the same faults for the same requests.
#[derive(Debug)]
pub struct Chaos {
    inner: Arc<dyn Engine>,
    state: Mutex<State>,
    cut: AtomicBool,
}

#[derive(Debug)]
struct State {
    random: SmallRng,
    faults: Faults,
    /// Requests that will arrive a second time.
    duplicates: JoinSet<()>,
}

/// What happens to one request.
#[derive(Debug)]
struct Fate {
    before: Duration,
    lost: bool,
    failed: bool,
    again_after: Option<Duration>,
    after: Duration,
    reply_lost: bool,
    /// A loss shows as an error, not as silence.
    noticed: bool,
}

impl Chaos {
    /// A connection with these faults.
    #[must_use]
    pub fn new(inner: Arc<dyn Engine>, seed: u64, faults: Faults) -> Self {
        let state = State { random: SmallRng::seed_from_u64(seed), faults, duplicates: JoinSet::new() };
        Self { inner, state: Mutex::new(state), cut: AtomicBool::new(false) }
    }

    /// From now on these are the faults.
    pub fn set(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Cuts the connection: nothing arrives until it is [mended](Self::mend). Requests fail or hang.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Release);
    }

    /// Mends the connection.
    pub fn mend(&self) {
        self.cut.store(false, Ordering::Release);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self) -> Fate {
        let State { random, faults, .. } = &mut *self.state();
        let mut delay = || faults.delay.mul_f64(random.random::<f64>());
        let (before, after, again) = (delay(), delay(), delay() * 4);
        Fate {
            before,
            lost: random.random_bool(faults.lose_request),
            failed: random.random_bool(faults.fail),
            again_after: random.random_bool(faults.duplicate).then_some(again),
            after,
            reply_lost: random.random_bool(faults.lose_reply),
            noticed: random.random(),
        }
    }

    /// Nothing comes back: the caller notices by an error, or not at all.
    async fn silence<T>(&self, fate: &Fate) -> Result<T> {
        if !fate.noticed {
            std::future::pending::<()>().await;
        }
        Err(Error::new(Kind::Unreachable, "the connection broke (chaos)").unknown())
    }

    async fn pass<T, F>(&self, request: impl Fn() -> F) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let fate = self.fate();
        if !fate.before.is_zero() {
            tokio::time::sleep(fate.before).await;
        }
        if fate.lost || self.cut.load(Ordering::Acquire) {
            return self.silence(&fate).await;
        }
        if fate.failed {
            return Err(Error::new(Kind::Unreachable, "the engine refused the request (chaos)"));
        }
        if let Some(after) = fate.again_after {
            let again = request();
            let duplicates = &mut self.state().duplicates;
            while duplicates.try_join_next().is_some() {}
            duplicates.spawn(async move {
                tokio::time::sleep(after).await;
                // Nobody waits for the answer of a duplicate.
                let _ = again.await;
            });
        }
        let answer = request().await;
        if !fate.after.is_zero() {
            tokio::time::sleep(fate.after).await;
        }
        if fate.reply_lost || self.cut.load(Ordering::Acquire) {
            return self.silence(&fate).await;
        }
        answer
    }
}

/// Passes a verb through the faults, with arguments of its own since it may be carried out after its caller has gone.
macro_rules! pass {
    ($self:ident.$verb:ident($($arg:ident),*)) => {{
        let inner = Arc::clone(&$self.inner);
        $(let $arg = $arg.to_owned();)*
        $self.pass(move || {
            let inner = Arc::clone(&inner);
            $(let $arg = $arg.clone();)*
            async move { inner.$verb($(&$arg),*).await }
        }).await
    }};
}

// A method with a default that is forgotten here would silently not be passed on.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Engine for Chaos {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn longest_lease(&self) -> Duration {
        self.inner.longest_lease()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        pass!(self.claim(claim))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        // A wake-up is a message as any other: it comes late, or never. There is nothing to do twice about it.
        let fate = self.fate();
        let moved = self.inner.moved(claim).await;
        tokio::time::sleep(fate.after).await;
        if fate.reply_lost || self.cut.load(Ordering::Acquire) {
            return self.silence(&fate).await;
        }
        moved
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        pass!(self.renew(claims))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        pass!(self.withdraw(claim))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        pass!(self.survey(prefix))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        pass!(self.evict(name, claim))
    }

    async fn checkup(&self) -> Result<Checkup> {
        pass!(self.checkup())
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        pass!(self.read(name))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        pass!(self.write(name, write))
    }
}
