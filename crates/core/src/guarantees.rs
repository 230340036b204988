//! What an engine, in its topology, can promise, as data.

use std::time::Duration;

use crate::error::{Error, Kind, Result};

/// What "nobody else is in" rests on. Later ones promise more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exclusion {
    /// The memory of one process.
    Process,
    /// One machine: its file locks, its boot clock.
    Machine,
    /// One server, as long as it is healthy: a fail-over may lose a grant.
    Server,
    /// A majority of independent servers whose clocks run at nearly the same speed.
    Quorum,
    /// A replicated log: a grant survives what the log survives.
    Consensus,
}

/// What a token survives. Later ones promise more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenSurvives {
    /// Nothing: it starts anew with the process or with a server that lost its memory.
    Nothing,
    /// A restart of every client.
    Clients,
    /// A crash of the machine or server that keeps it.
    Crash,
    /// The loss of a minority of the members.
    Members,
}

/// How a waiter learns that its turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeUp {
    /// It asks from time to time.
    Poll,
    /// It is told.
    Push,
}

/// When the lock of a holder that crashed is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CrashFrees {
    /// When its lease is over, and this much later at most.
    AfterLease(Duration),
    /// As soon as the crash is noticed, this much later at most.
    Within(Duration),
}

/// What an engine, in its topology, can promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantees {
    /// The engine's name: `memory`, `sqlite`, `redis`…
    pub engine: &'static str,
    /// What exclusion rests on.
    pub exclusion: Exclusion,
    /// What the fencing token survives.
    pub token: TokenSurvives,
    /// First come, first served.
    pub fair: bool,
    /// Read-write locks.
    pub shared: bool,
    /// Semaphores.
    pub permits: bool,
    /// A higher priority goes ahead of waiters.
    pub priority: bool,
    /// Cells: versioned values that check tokens.
    pub cells: bool,
    /// How a waiter learns that its turn has come.
    pub wake_up: WakeUp,
    /// When a crashed holder's lock is free.
    pub crash_frees: CrashFrees,
    /// Whether a grant can outlive its process, as [`at_least`](crate::Mutex::at_least) needs.
    pub outlives_process: bool,
    /// The shortest lease the engine can keep.
    pub min_ttl: Duration,
}

/// What a program needs of its engine, for [`Locks::require`](crate::Locks::require).
///
/// ```
/// use lockhouse_core::{Engine, Exclusion, Memory, Needs};
///
/// let memory = Memory::new().guarantees();
/// assert!(Needs::new().fair().check(&memory).is_ok());
/// let error = Needs::new().exclusion(Exclusion::Consensus).check(&memory).unwrap_err();
/// assert!(error.to_string().contains("exclusion"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Needs {
    exclusion: Option<Exclusion>,
    token: Option<TokenSurvives>,
    wake_up: Option<WakeUp>,
    flags: Vec<Flag>,
}

/// Something that is promised or not, and what to call it.
type Flag = (&'static str, fn(&Guarantees) -> bool);

impl Needs {
    /// Needs nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Exclusion must rest on this or on something better.
    #[must_use]
    pub fn exclusion(mut self, at_least: Exclusion) -> Self {
        self.exclusion = Some(at_least);
        self
    }

    /// Tokens must survive this or something worse.
    #[must_use]
    pub fn token(mut self, at_least: TokenSurvives) -> Self {
        self.token = Some(at_least);
        self
    }

    /// Waiters must be told of their turn.
    #[must_use]
    pub fn push(mut self) -> Self {
        self.wake_up = Some(WakeUp::Push);
        self
    }

    /// First come must be first served.
    #[must_use]
    pub fn fair(self) -> Self {
        self.flag("first come, first served", |g| g.fair)
    }

    /// There must be read-write locks.
    #[must_use]
    pub fn shared(self) -> Self {
        self.flag("read-write locks", |g| g.shared)
    }

    /// There must be semaphores.
    #[must_use]
    pub fn permits(self) -> Self {
        self.flag("semaphores", |g| g.permits)
    }

    /// There must be priorities.
    #[must_use]
    pub fn priority(self) -> Self {
        self.flag("priorities", |g| g.priority)
    }

    /// There must be cells.
    #[must_use]
    pub fn cells(self) -> Self {
        self.flag("cells", |g| g.cells)
    }

    /// A grant must be able to outlive its process.
    #[must_use]
    pub fn outlives_process(self) -> Self {
        self.flag("grants that outlive their process", |g| g.outlives_process)
    }

    fn flag(mut self, what: &'static str, has: fn(&Guarantees) -> bool) -> Self {
        self.flags.push((what, has));
        self
    }

    /// Compares with what an engine promises.
    ///
    /// # Errors
    /// [`Kind::Unsupported`], naming everything that is missing.
    pub fn check(&self, promised: &Guarantees) -> Result<()> {
        let mut missing: Vec<String> = Vec::new();
        if let Some(needed) = self.exclusion.filter(|needed| promised.exclusion < *needed) {
            missing.push(format!("exclusion by {needed:?} (it has {:?})", promised.exclusion));
        }
        if let Some(needed) = self.token.filter(|needed| promised.token < *needed) {
            missing.push(format!("a token that survives {needed:?} (it has {:?})", promised.token));
        }
        if let Some(needed) = self.wake_up.filter(|needed| promised.wake_up < *needed) {
            missing.push(format!("{needed:?} wake-up (it has {:?})", promised.wake_up));
        }
        missing.extend(self.flags.iter().filter(|(_, has)| !has(promised)).map(|(what, _)| (*what).to_owned()));
        if missing.is_empty() {
            return Ok(());
        }
        let what = format!("this engine does not promise {}", missing.join(", "));
        Err(Error::new(Kind::Unsupported, what)
            .engine(promised.engine)
            .help("use an engine that does: see the table in the README"))
    }
}
