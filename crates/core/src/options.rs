//! What a user can say about a lock, the same for every kind, and the checks it must pass.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, Patience};
use crate::client::Client;
use crate::error::{Error, Kind, Result};
use crate::guarantees::Guarantees;
use crate::line::kind;
use crate::name::Name;
use crate::owner::Owner;

/// The lease when none is given. Long enough to ride out a restart of the engine, short enough to wait for after a
/// crash.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// The shortest lease on any engine: below it the margin for clocks and scheduling would eat the lease.
pub const MIN_TTL: Duration = Duration::from_millis(20);
/// The longest lease: a crashed holder would block the name for as long.
pub const MAX_TTL: Duration = Duration::from_secs(7 * 86_400);

/// What a user can say about a lock.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) ttl: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) at_most: Option<Duration>,
    pub(crate) at_least: Option<Duration>,
    pub(crate) priority: i32,
    pub(crate) owner: Option<Owner>,
    pub(crate) note: Option<Arc<str>>,
    pub(crate) barging: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            wait: None,
            at_most: None,
            at_least: None,
            priority: 0,
            owner: None,
            note: None,
            barging: false,
        }
    }
}

/// The builder methods that every kind of lock has.
macro_rules! option_methods {
    ($($options:ident).+) => {
        /// How long the engine honours a claim without hearing of it again. The lock is renewed for as long as it is
        /// held; this is how long a crash can block it. 30 s unless said.
        #[must_use]
        pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self.$($options).+.ttl = ttl;
            self
        }

        /// How long to wait for the lock. For ever unless said.
        #[must_use]
        pub fn wait(mut self, wait: std::time::Duration) -> Self {
            self.$($options).+.wait = Some(wait);
            self
        }

        /// A stuck holder is not renewed for ever: after this time it is told that the lock is lost.
        #[must_use]
        pub fn at_most(mut self, at_most: std::time::Duration) -> Self {
            self.$($options).+.at_most = Some(at_most);
            self
        }

        /// A short job keeps the name busy: released earlier than this, the name stays taken until then. Refused where
        /// the engine's grants cannot outlive their process.
        #[must_use]
        pub fn at_least(mut self, at_least: std::time::Duration) -> Self {
            self.$($options).+.at_least = Some(at_least);
            self
        }

        /// Higher goes ahead of waiters, never of holders. 0 unless said; refused where the engine has none.
        #[must_use]
        pub fn priority(mut self, priority: i32) -> Self {
            self.$($options).+.priority = priority;
            self
        }

        /// Who claims. The same owner locking the same name again on this client shares the hold: n locks need n
        /// releases, and the token stays the same. Without an owner, locks are not reentrant.
        #[must_use]
        pub fn owner(mut self, owner: &crate::owner::Owner) -> Self {
            self.$($options).+.owner = Some(owner.clone());
            self
        }

        /// A word for people who look at the line.
        #[must_use]
        pub fn note(mut self, note: impl AsRef<str>) -> Self {
            self.$($options).+.note = Some(note.as_ref().into());
            self
        }

        /// Permits the engine to let this claim take free capacity past sleeping waiters: throughput for fairness.
        #[must_use]
        pub fn barging(mut self) -> Self {
            self.$($options).+.barging = true;
            self
        }
    };
}
pub(crate) use option_methods;

/// A request that makes sense: what it claims, checked against what the engine can do.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) name: Name,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) options: Options,
}

impl Terms {
    pub(crate) fn new(client: &Client, name: &Named, weight: u32, capacity: u32, options: &Options) -> Result<Self> {
        let name = name.get()?;
        let terms = Self { name, weight, capacity, options: options.clone() };
        let promised = &client.guarantees;
        terms.check_amounts()?;
        terms.check_times(promised)?;
        terms.check_promises(promised)?;
        Ok(terms)
    }

    /// A claim on these terms, with a new identity.
    pub(crate) fn claim(&self, client: &Client, patience: Patience) -> Claim {
        let Options { ttl, priority, owner, note, .. } = &self.options;
        let owner = owner.as_ref().unwrap_or(&client.owner).clone();
        Claim {
            weight: self.weight,
            capacity: self.capacity,
            priority: *priority,
            patience,
            note: note.clone(),
            ..Claim::on(self.name.clone(), owner, (*ttl).min(client.longest_lease))
        }
    }

    pub(crate) fn patience(&self) -> Patience {
        if self.options.barging { Patience::Barges } else { Patience::Waits }
    }

    fn check_amounts(&self) -> Result<()> {
        let Self { name, weight, capacity, .. } = self;
        let invalid =
            |what: String, help: &str| Err(Error::new(Kind::Invalid, what).help(help).during("lock", Some(name)));
        if *capacity == 0 {
            return invalid("a semaphore of 0 permits can never be had".into(), "give it at least 1");
        }
        if *weight == 0 {
            return invalid("0 permits are asked for".into(), "ask for at least 1");
        }
        if weight > capacity {
            let what = format!("{weight} permits are asked for, and there are only {capacity}");
            return invalid(what, "ask for fewer, or make the semaphore larger everywhere");
        }
        Ok(())
    }

    fn check_times(&self, promised: &Guarantees) -> Result<()> {
        let ttl = self.options.ttl;
        let shortest = promised.min_ttl.max(MIN_TTL);
        if (shortest..=MAX_TTL).contains(&ttl) {
            return Ok(());
        }
        let (side, bound) = if ttl < shortest { ("shorter", shortest) } else { ("longer", MAX_TTL) };
        let what = format!("a TTL of {ttl:?} is {side} than the {bound:?} that this engine permits");
        let help = format!("give a TTL from {shortest:?} to {MAX_TTL:?}, such as 30 s");
        Err(Error::new(Kind::Invalid, what).help(help).engine(promised.engine).during("lock", Some(&self.name)))
    }

    fn check_promises(&self, promised: &Guarantees) -> Result<()> {
        let missing = match self {
            Self { capacity: kind::MUTEX, .. } => None,
            Self { capacity: kind::WHOLE, .. } => (!promised.shared).then_some("read-write locks"),
            _ => (!promised.permits).then_some("semaphores"),
        };
        let priority = self.options.priority != 0 && !promised.priority;
        let lingering = self.options.at_least.is_some() && !promised.outlives_process;
        let missing = missing
            .or(priority.then_some("priorities"))
            .or(lingering.then_some("`at_least`: its grants cannot outlive their process"));
        match missing {
            None => Ok(()),
            Some(missing) => Err(Error::new(Kind::Unsupported, format!("this engine has no {missing}"))
                .help("use an engine that does: see the table in the README")
                .engine(promised.engine)
                .during("lock", Some(&self.name))),
        }
    }
}

/// A name as the user gave it. A bad one is told when it is used, so that a lock can be described in one expression.
#[derive(Debug, Clone)]
pub(crate) struct Named(std::result::Result<Name, String>);

impl Named {
    pub(crate) fn new(name: &str) -> Self {
        Self(Name::new(name).map_err(|_| name.to_owned()))
    }

    pub(crate) fn get(&self) -> Result<Name> {
        match &self.0 {
            Ok(name) => Ok(name.clone()),
            Err(raw) => Name::new(raw),
        }
    }
}
