//! The contract, kept by rows with leases.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, CrashFrees, Engine, Exclusion, Guarantees, Line, Name, PublicId, Renewal, Result, Standing,
    TokenSurvives, WakeUp, Withdrawal, Write, Written,
};
use tokio::task::JoinSet;

use crate::cells::{Reading, Writing};
use crate::claims::{Claiming, Evicting, Renewing, Withdrawing, check};
use crate::error::ENGINE;
use crate::pool::Pool;
use crate::settings::CheckingUp;
use crate::statement::Tables;
use crate::survey::Surveying;
use crate::upkeep::keep_up;
use crate::waiters::{Glance, Seen, Waiters, pause};

/// The shortest lease: some round trips to a server in the same building, and a slow one among them.
const MIN_TTL: Duration = Duration::from_millis(100);
/// A crashed holder's lock is given to the next one this much after its lease, at the latest.
const AFTER_LEASE: Duration = Duration::from_millis(250);
/// So many leases are renewed by one statement.
const RENEWALS_AT_ONCE: usize = 250;
/// A request that is about no lease is given up after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
/// The shortest time a request is given.
const IMPATIENCE: Duration = Duration::from_millis(100);

/// What `hold=lease` promises.
pub(crate) fn guarantees() -> Guarantees {
    Guarantees {
        engine: ENGINE,
        exclusion: Exclusion::Server,
        token: TokenSurvives::Crash,
        fair: true,
        shared: true,
        permits: true,
        priority: true,
        cells: true,
        wake_up: WakeUp::Poll,
        crash_frees: CrashFrees::AfterLease(AFTER_LEASE),
        outlives_process: true,
        min_ttl: MIN_TTL,
    }
}

/// One side of a client.
#[derive(Debug)]
pub(crate) struct Leases {
    pool: Arc<Pool>,
    tables: Arc<Tables>,
    waiters: Arc<Waiters>,
    /// Ended with this side.
    _tasks: JoinSet<()>,
}

impl Leases {
    /// A side of a client; the one that sweeps up does so until it ends.
    pub(crate) fn new(pool: Arc<Pool>, tables: Arc<Tables>, waiters: Arc<Waiters>, sweeps: bool) -> Self {
        let mut tasks = JoinSet::new();
        if sweeps {
            tasks.spawn(keep_up(Arc::downgrade(&pool), Arc::clone(&tables)));
        }
        Self { pool, tables, waiters, _tasks: tasks }
    }

    /// Looks until the claim may have moved.
    async fn wait(&self, claim: &Claim) -> Result<Option<Standing>> {
        let (mut looks, mut before) = (0, None);
        tokio::time::sleep(pause(0, looks, claim.ttl)).await;
        loop {
            let glance = Glance { tables: &self.tables, name: &claim.name, id: &claim.id };
            match self.pool.run(patience(claim.ttl), &glance).await? {
                Seen::Granted(token) => return Ok(Some(Standing::Granted { token })),
                Seen::MayMove => return Ok(None),
                Seen::Waits { place, ahead, first_left } => {
                    // A line that moves is looked at more often.
                    looks = if before == Some(ahead) { looks + 1 } else { 0 };
                    before = Some(ahead);
                    let pause = pause(ahead, looks, first_left);
                    self.waiters.sleeper(&claim.name, place, claim.id).sleep(pause).await;
                }
            }
        }
    }
}

#[async_trait]
impl Engine for Leases {
    fn guarantees(&self) -> Guarantees {
        guarantees()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let claimed = async {
            check(claim)?;
            let claiming = Claiming { tables: &self.tables, claim, in_line: self.waiters.knows(&claim.id) };
            let standing = self.pool.run(patience(claim.ttl), &claiming).await??;
            self.waiters.answered(claim.id, standing);
            Ok(standing)
        };
        claimed.await.map_err(|error: lockhouse_core::Error| error.engine(ENGINE).during("claim", Some(&claim.name)))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        self.wait(claim).await.map_err(|error| error.during("wait", Some(&claim.name)))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let mut renewals = Vec::with_capacity(claims.len());
        for some in claims.chunks(RENEWALS_AT_ONCE) {
            let shortest = some.iter().map(|claim| claim.ttl).min().unwrap_or(PATIENCE);
            let renewing = Renewing { tables: &self.tables, claims: some };
            match self.pool.run(patience(shortest / 3), &renewing).await {
                Ok(renewed) => renewals.extend(renewed),
                Err(error) if renewals.is_empty() => {
                    return Err(error.during("renew", some.first().map(|claim| &claim.name)));
                }
                // What was answered stays answered.
                Err(_) => renewals.extend(some.iter().map(|_| Renewal::Unknown)),
            }
        }
        Ok(renewals)
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let withdrawing = Withdrawing { tables: &self.tables, claim };
        let withdrawal = self.pool.run(patience(claim.ttl), &withdrawing).await;
        self.waiters.left(&claim.name, &claim.id);
        withdrawal.map_err(|error| error.during("withdraw", Some(&claim.name)))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let lines = self.pool.run(PATIENCE, &Surveying { tables: &self.tables, prefix }).await;
        lines.map_err(|error| error.during("survey", None))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let evicted = self.pool.run(PATIENCE, &Evicting { tables: &self.tables, name, claim }).await;
        evicted.map_err(|error| error.during("evict", Some(name)))
    }

    async fn checkup(&self) -> Result<Checkup> {
        let checkup = self.pool.run(PATIENCE, &CheckingUp { tables: &self.tables }).await;
        checkup.map_err(|error| error.during("checkup", None))
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        let cell = self.pool.run(PATIENCE, &Reading { tables: &self.tables, name }).await;
        cell.map_err(|error| error.during("read", Some(name)))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        let written = self.pool.run(PATIENCE, &Writing { tables: &self.tables, name, write }).await;
        written.map_err(|error| error.during("write", Some(name)))
    }
}

/// How long an answer is waited for when the lease is this long.
fn patience(ttl: Duration) -> Duration {
    ttl.clamp(IMPATIENCE, PATIENCE)
}
