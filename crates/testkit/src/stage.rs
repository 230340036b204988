//! What a case works with: its subject, names of its own, and the times it may count on.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Claim, CrashFrees, Engine, Guarantees, Line, Locks, Mutex, Name, Owner, Patience, Side};

use crate::case::Case;
use crate::eventually::{eventually, eventually_none};
use crate::gate::Gate;
use crate::process::Taker;
use crate::subject::{Shared, Subject};
use crate::wire::Wire;

/// What a machine that is busy with other tests may add to anything. A wait that is shorter may be over before its
/// first answer, and that is an error: nobody said that the lock is busy.
pub(crate) const BUSY_MACHINE: Duration = Duration::from_secs(1);
/// Far less than an enduring lease: what is gone by then was taken out.
pub(crate) const SOON: Duration = Duration::from_secs(5);
/// What is waited for and must come is given up after this.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// So long a lease that it is not the lease which ends anything.
const ENDURING: Duration = Duration::from_secs(60);

/// What a case works with.
#[derive(Debug, Clone)]
pub struct Stage {
    subject: Arc<dyn Subject>,
    guarantees: Guarantees,
    prefix: String,
    /// What the harness calls this test.
    test: String,
    taker: Option<String>,
}

/// Both sides of a connection to an engine, without a client.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    /// Kept, since what both sides share lives there.
    _keeper: Arc<dyn Engine>,
    pub(crate) engine: Arc<dyn Engine>,
}

impl Stage {
    pub(crate) fn new(subject: Arc<dyn Subject>, case: &Case, test: String, taker: Option<String>) -> Self {
        let short: String = case.name.chars().take(40).collect();
        let prefix = format!("{short}-{:08x}/", rand::random::<u32>());
        let guarantees = subject.guarantees();
        Self { subject, guarantees, prefix, test, taker }
    }

    /// What the harness calls this test.
    pub(crate) fn test(&self) -> &str {
        &self.test
    }

    /// The same case on another subject of the same engine.
    pub(crate) fn on(&self, subject: Arc<dyn Subject>) -> Self {
        Self { subject, ..self.clone() }
    }

    /// The engine under test.
    #[must_use]
    pub fn subject(&self) -> &dyn Subject {
        &*self.subject
    }

    /// What it promises.
    #[must_use]
    pub fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    /// The lease to use.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.subject.ttl()
    }

    /// A name that no other case uses.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A name that no other case uses, checked.
    #[must_use]
    pub fn checked(&self, name: &str) -> Name {
        Name::new(self.name(name)).expect("cases use good names")
    }

    /// So many repetitions, or fewer where the engine is slow.
    #[must_use]
    pub fn paced(&self, repetitions: u32) -> u32 {
        (repetitions / self.subject.pace()).max(1)
    }

    /// One more client, which shares no connection with any other.
    pub async fn client(&self) -> Locks {
        Locks::new(Shared(self.subject.connector())).await.expect("the subject can be connected to")
    }

    /// One more client, behind a gate.
    pub async fn gated(&self) -> (Locks, Gate) {
        let (gate, gated) = Gate::around(self.subject.connector());
        (Locks::new(gated).await.expect("the subject can be connected to"), gate)
    }

    /// One more client, whose connection can be cut.
    pub async fn cuttable(&self) -> (Locks, Arc<dyn Wire>) {
        self.subject.cuttable().await
    }

    /// The engine itself, without a client: nobody renews what is claimed here.
    pub(crate) async fn raw(&self) -> Raw {
        let connector = self.subject.connector();
        let keeper = connector.connect(Side::Keeper).await.expect("the subject can be connected to");
        let engine = connector.connect(Side::Front).await.expect("the subject can be connected to");
        Raw { _keeper: keeper, engine }
    }

    /// A claim on a mutex of this case's, as enduring as [`Stage::enduring`]: nobody renews it.
    pub(crate) fn claim(&self, name: &str, patience: Patience) -> Claim {
        Claim { patience, ..Claim::on(self.checked(name), Owner::new("suite"), ENDURING) }
    }

    /// A mutex of this case's, with the lease to use.
    #[must_use]
    pub fn mutex(&self, locks: &Locks, name: &str) -> Mutex {
        locks.mutex(self.name(name)).ttl(self.ttl())
    }

    /// A mutex of this case's, with so long a lease that it is not the lease which ends anything.
    #[must_use]
    pub fn enduring(&self, locks: &Locks, name: &str) -> Mutex {
        self.mutex(locks, name).ttl(ENDURING)
    }

    /// How long a lock whose holder is not heard of any more may stay taken.
    #[must_use]
    pub fn freed_by_lease(&self) -> Duration {
        let slack = match self.guarantees().crash_frees {
            CrashFrees::AfterLease(slack) => slack,
            CrashFrees::Within(_) => Duration::ZERO,
        };
        self.ttl() + slack + BUSY_MACHINE
    }

    /// How long a lock whose holder's process was killed may stay taken.
    #[must_use]
    pub fn freed_by_crash(&self) -> Duration {
        match self.guarantees().crash_frees {
            CrashFrees::AfterLease(slack) => self.ttl() + slack + BUSY_MACHINE,
            CrashFrees::Within(bound) => bound + BUSY_MACHINE,
        }
    }

    /// The line of one of this case's names as the engine shows it.
    pub async fn line(&self, locks: &Locks, name: &str) -> Option<Line> {
        locks.line(self.name(name)).await.expect("a line can be looked at")
    }

    /// How many hold and how many wait.
    pub async fn count(&self, locks: &Locks, name: &str) -> (usize, usize) {
        self.line(locks, name).await.map_or((0, 0), |line| (line.holders().count(), line.waiters().count()))
    }

    /// Waits until so many wait in line, and shows it: a quorum's members need not all know of them already, so that
    /// the next look may show fewer.
    pub async fn until_waiting(&self, locks: &Locks, name: &str, waiters: usize) -> Line {
        let (what, mut seen) = (format!("{waiters} wait for {name}"), None);
        eventually(LONG, &what, async || {
            let line = self.line(locks, name).await;
            seen = line.filter(|line| line.waiters().count() == waiters);
            seen.is_some()
        })
        .await;
        seen.expect("it was seen")
    }

    /// Nothing of this case's is held or queued, at the latest after that time.
    pub async fn nothing_left(&self, locks: &Locks, within: Duration) {
        eventually_none(within, "nothing is held or queued any more", async || {
            Some(locks.survey(&self.prefix).await.expect("lines can be looked at")).filter(|lines| !lines.is_empty())
        })
        .await;
    }

    /// A separate process that connects to the same engine.
    pub async fn taker(&self) -> Taker {
        let url = self.subject.url().expect("cases with processes run only where there is a url");
        let entry = self.taker.as_deref().expect("cases with processes run only where there is a taker");
        Taker::start(entry, &url).await
    }
}
