//! A gate before an engine: passes calls, fails them, makes them hang, loses their answers, and counts them.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, Connector, Engine, Error, Guarantees, Kind, Line, Name, PublicId, Renewal, Result, Side,
    Standing, Withdrawal, Write, Written,
};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::eventually::eventually;
use crate::stage::LONG;
use crate::wire::{Cut, Wire};

/// The verbs of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method of its name")]
pub enum Verb {
    Claim,
    Moved,
    Renew,
    Withdraw,
    Survey,
    Evict,
    Checkup,
    Read,
    Write,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 9] = [
        Self::Claim,
        Self::Moved,
        Self::Renew,
        Self::Withdraw,
        Self::Survey,
        Self::Evict,
        Self::Checkup,
        Self::Read,
        Self::Write,
    ];
}

/// What the gate does to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Lets it through.
    #[default]
    Pass,
    /// Fails it without carrying it out, and says so.
    Fail,
    /// Keeps it until the mode changes, then treats it by the new one.
    Hang,
    /// Carries it out and fails it: whether it happened is unknown.
    LoseReply,
    /// Carries it out and never answers.
    Swallow,
    /// Carries it out and answers this much later.
    Late(Duration),
    /// Carries it out this much later, also when the caller has given up by then.
    Straggle(Duration),
    /// Fails it at once, and carries it out this much later: whether it happens is unknown.
    Orphan(Duration),
}

/// The handle of a gate. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    switches: Arc<Switches>,
}

#[derive(Debug, Default)]
struct Switches {
    modes: watch::Sender<HashMap<(Side, Verb), Mode>>,
    calls: Mutex<HashMap<(Side, Verb), u64>>,
    /// Requests on their way.
    stragglers: Mutex<JoinSet<()>>,
}

impl Gate {
    /// A gate, and the connector behind it.
    #[must_use]
    pub fn around(inner: Arc<dyn Connector>) -> (Self, Gated) {
        let gate = Self::default();
        let gated = gate.before(inner);
        (gate, gated)
    }

    /// One more connector behind this gate.
    #[must_use]
    pub fn before(&self, inner: Arc<dyn Connector>) -> Gated {
        Gated { inner, gate: self.clone() }
    }

    /// From now on, calls of that verb by either side are treated so.
    pub fn set(&self, verb: Verb, mode: Mode) {
        self.set_side(Side::Front, verb, mode);
        self.set_side(Side::Keeper, verb, mode);
    }

    /// From now on, calls of that verb by one side are treated so.
    pub fn set_side(&self, side: Side, verb: Verb, mode: Mode) {
        self.switches.modes.send_modify(|modes| _ = modes.insert((side, verb), mode));
    }

    /// From now on, every call is treated so.
    pub fn set_all(&self, mode: Mode) {
        Verb::ALL.into_iter().for_each(|verb| self.set(verb, mode));
    }

    /// How many calls of that verb have come, from either side.
    #[must_use]
    pub fn calls(&self, verb: Verb) -> u64 {
        let calls = self.switches.calls.lock().unwrap_or_else(PoisonError::into_inner);
        [Side::Front, Side::Keeper].iter().filter_map(|side| calls.get(&(*side, verb))).sum()
    }

    /// How many calls have come in all.
    #[must_use]
    pub fn all_calls(&self) -> u64 {
        Verb::ALL.into_iter().map(|verb| self.calls(verb)).sum()
    }

    /// Waits until no call is on its way any more, whether anybody still waits for its answer or not.
    pub async fn until_all_arrived(&self) {
        eventually(LONG, "every call arrives", async || {
            let mut stragglers = self.switches.stragglers.lock().unwrap_or_else(PoisonError::into_inner);
            while stragglers.try_join_next().is_some() {}
            stragglers.is_empty()
        })
        .await;
    }

    async fn pass<T: Send + 'static>(
        &self,
        side: Side,
        verb: Verb,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        *self.switches.calls.lock().unwrap_or_else(PoisonError::into_inner).entry((side, verb)).or_default() += 1;
        let mut modes = self.switches.modes.subscribe();
        let mode = modes
            .wait_for(|modes| modes.get(&(side, verb)).copied().unwrap_or_default() != Mode::Hang)
            .await
            .map(|modes| modes.get(&(side, verb)).copied().unwrap_or_default())
            .expect("the gate lives as long as what is behind it");
        match mode {
            Mode::Pass | Mode::Hang => call.await,
            Mode::Fail => Err(Error::new(Kind::Unreachable, "the gate is closed")),
            Mode::LoseReply => {
                let _ = call.await;
                Err(Error::new(Kind::Unreachable, "the gate lost the answer").unknown())
            }
            Mode::Swallow => {
                let _ = call.await;
                std::future::pending().await
            }
            Mode::Late(delay) => {
                let answer = call.await;
                tokio::time::sleep(delay).await;
                answer
            }
            Mode::Straggle(delay) => {
                let (tell, answer) = oneshot::channel();
                self.later(delay, async move {
                    // Nobody may be listening any more: that is what a straggler is.
                    let _ = tell.send(call.await);
                });
                answer.await.expect("an engine does not panic")
            }
            Mode::Orphan(delay) => {
                self.later(delay, async move { drop(call.await) });
                Err(Error::new(Kind::Unreachable, "the gate lost sight of the request").unknown())
            }
        }
    }

    fn later(&self, delay: Duration, call: impl Future<Output = ()> + Send + 'static) {
        let mut stragglers = self.switches.stragglers.lock().unwrap_or_else(PoisonError::into_inner);
        stragglers.spawn(async move {
            tokio::time::sleep(delay).await;
            call.await;
        });
    }
}

impl Wire for Gate {
    fn cut(&self, how: Cut) {
        self.set_all(match how {
            Cut::Closed => Mode::Fail,
            Cut::Reset => Mode::LoseReply,
            Cut::Silent | Cut::HalfOpen => Mode::Hang,
            Cut::Deaf => Mode::Swallow,
        });
    }

    fn mend(&self) {
        self.set_all(Mode::Pass);
    }
}

/// What is behind a [`Gate`].
#[derive(Debug)]
pub struct Gated {
    inner: Arc<dyn Connector>,
    gate: Gate,
}

#[async_trait]
impl Connector for Gated {
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let inner = self.inner.connect(side).await?;
        Ok(Arc::new(GatedEngine { inner, gate: self.gate.clone(), side }))
    }
}

#[derive(Debug)]
struct GatedEngine {
    inner: Arc<dyn Engine>,
    gate: Gate,
    side: Side,
}

/// Passes one call through the gate, with everything it needs cloned: a straggler outlives its caller.
macro_rules! through {
    ($self:ident, $verb:ident, $method:ident($($arg:ident),*)) => {{
        let inner = Arc::clone(&$self.inner);
        $(let $arg = $arg.to_owned();)*
        $self.gate.pass($self.side, Verb::$verb, async move { inner.$method($(&$arg),*).await }).await
    }};
}

// A method with a default that is forgotten here would silently not be passed on.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Engine for GatedEngine {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn longest_lease(&self) -> Duration {
        self.inner.longest_lease()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        through!(self, Claim, claim(claim))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        through!(self, Moved, moved(claim))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        through!(self, Renew, renew(claims))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        through!(self, Withdraw, withdraw(claim))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        through!(self, Survey, survey(prefix))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        through!(self, Evict, evict(name, claim))
    }

    async fn checkup(&self) -> Result<Checkup> {
        through!(self, Checkup, checkup())
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        through!(self, Read, read(name))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        through!(self, Write, write(name, write))
    }
}
