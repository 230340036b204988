//! The memory engine: the reference implementation, for one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::claim::{Claim, PublicId};
use crate::clock::Clock;
use crate::engine::{Cell, Connector, Engine, Renewal, Side, Standing, Withdrawal, Write, Written};
use crate::error::Result;
use crate::guarantees::{CrashFrees, Exclusion, Guarantees, TokenSurvives, WakeUp};
use crate::lane::Lane;
use crate::name::Name;
use crate::survey::Line;

/// Keeps lines in the memory of this process. Clones share them: clients of one `Memory` exclude each other.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct State {
    lanes: HashMap<Name, Lane>,
    cells: HashMap<Name, Stored>,
    /// One counter for all names: tokens of a name grow, and nothing stays behind when its line is empty.
    tokens: u64,
}

#[derive(Debug, Default)]
struct Stored {
    cell: Cell,
    last_write: [u8; 16],
}

impl Memory {
    /// An empty engine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty engine whose leases go by the clock of the tokio runtime, which a test can pause.
    #[must_use]
    pub fn simulated() -> Self {
        Self { clock: Clock::Simulated, ..Self::default() }
    }

    /// Takes a claim out behind its owner's back, as an administrator with direct access could. For tests.
    pub fn sabotage(&self, name: &Name) {
        let mut state = self.state();
        state.lanes.remove(name);
    }

    /// How many lines there are; those without a claim are not kept.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.state().lanes.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the line of a name, swept of expired claims before, and dropped after if it is empty.
    fn with_lane<T>(&self, name: &Name, work: impl FnOnce(&mut Lane, &mut u64) -> T) -> T {
        let now = self.clock.now();
        let mut guard = self.state();
        let State { lanes, tokens, .. } = &mut *guard;
        let lane = lanes.entry(name.clone()).or_default();
        lane.sweep(now, tokens);
        let answer = work(lane, tokens);
        if lane.is_deserted() {
            lanes.remove(name);
        }
        answer
    }
}

#[async_trait]
impl Engine for Memory {
    fn guarantees(&self) -> Guarantees {
        Guarantees {
            engine: "memory",
            exclusion: Exclusion::Process,
            token: TokenSurvives::Nothing,
            fair: true,
            shared: true,
            permits: true,
            priority: true,
            cells: true,
            wake_up: WakeUp::Push,
            crash_frees: CrashFrees::AfterLease(Duration::ZERO),
            // Its grants outlive the client that made them, and whoever could notice the end of the process ends too.
            outlives_process: true,
            min_ttl: Duration::ZERO,
        }
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let now = self.clock.now();
        self.with_lane(&claim.name, |lane, tokens| lane.claim(claim, now, tokens))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        loop {
            let Some((woken, next_expiry)) = self.with_lane(&claim.name, |lane, _| lane.watch(&claim.id)) else {
                return Ok(None);
            };
            tokio::select! {
                biased;
                () = woken.notified() => {
                    let standing = self.with_lane(&claim.name, |lane, _| lane.standing(&claim.id));
                    return Ok(standing.filter(|standing| matches!(standing, Standing::Granted { .. })));
                }
                // Nobody else may come by to notice that a lease is over.
                () = self.clock.sleep_until(next_expiry) => {}
            }
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let now = self.clock.now();
        let renew = |claim: &Claim| self.with_lane(&claim.name, |lane, _| lane.renew(claim, now));
        Ok(claims.iter().map(renew).collect())
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        Ok(self.with_lane(&claim.name, |lane, tokens| {
            let withdrawal = lane.remove(&claim.id);
            lane.admit(tokens, self.clock.now());
            withdrawal
        }))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let now = self.clock.now();
        let mut guard = self.state();
        let State { lanes, tokens, .. } = &mut *guard;
        let mut lines: Vec<Line> = Vec::new();
        for (name, lane) in lanes.iter_mut().filter(|(name, _)| name.as_str().starts_with(prefix)) {
            lane.sweep(now, tokens);
            lines.extend(lane.survey(name, now));
        }
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(lines)
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let now = self.clock.now();
        Ok(self.with_lane(name, |lane, tokens| {
            let found = lane.evict(claim);
            lane.admit(tokens, now);
            found
        }))
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        Ok(self.state().cells.get(name).map(|stored| stored.cell.clone()).unwrap_or_default())
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        let mut state = self.state();
        let empty = Stored::default();
        let Stored { cell, last_write } = state.cells.get(name).unwrap_or(&empty);
        if cell.version > 0 && *last_write == write.id {
            return Ok(Written::Yes { version: cell.version });
        }
        if write.token.is_some_and(|token| token < cell.token) {
            return Ok(Written::Stale { newest: cell.token });
        }
        if write.if_version.is_some_and(|version| version != cell.version) {
            return Ok(Written::Changed { version: cell.version });
        }
        let version = cell.version + 1;
        let token = write.token.unwrap_or(cell.token);
        let cell = Cell { version, token, value: write.value.clone() };
        state.cells.insert(name.clone(), Stored { cell, last_write: write.id });
        Ok(Written::Yes { version })
    }
}

#[async_trait]
impl Connector for Memory {
    async fn connect(&self, _side: Side) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(self.clone()))
    }
}
