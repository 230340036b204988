//! The contract, kept by an ensemble.

use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, CrashFrees, Engine, Exclusion, Guarantees, Line, Name, PublicId, Renewal, Result, Standing,
    TokenSurvives, WakeUp, Withdrawal, Write, Written,
};

use crate::ensemble::Ensemble;
use crate::error::ENGINE;

/// The shortest lease: some writes to a majority, and a slow one among them.
const MIN_TTL: Duration = Duration::from_millis(250);

/// What so many servers promise to a client with such a session.
pub(crate) fn guarantees(session: Duration, servers: usize) -> Guarantees {
    Guarantees {
        engine: ENGINE,
        exclusion: Exclusion::Consensus,
        token: if servers > 1 { TokenSurvives::Members } else { TokenSurvives::Crash },
        fair: true,
        shared: true,
        permits: true,
        priority: false,
        cells: true,
        wake_up: WakeUp::Push,
        // A lease is at most as long as the session. The leader looks for sessions that are over once a tick, and a
        // session is at least two ticks long.
        crash_frees: CrashFrees::AfterLease(session + session / 2),
        outlives_process: false,
        min_ttl: MIN_TTL,
    }
}

#[async_trait]
impl Engine for Ensemble {
    fn guarantees(&self) -> Guarantees {
        guarantees(self.session.timeout, self.address.hosts.len())
    }

    fn longest_lease(&self) -> Duration {
        self.session.timeout
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let standing = Ensemble::claim(self, claim).await;
        standing.map_err(|error| error.engine(ENGINE).during("claim", Some(&claim.name)))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        Ensemble::moved(self, claim).await.map_err(|error| error.during("wait", Some(&claim.name)))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let renewals = Ensemble::renew(self, claims).await;
        renewals.map_err(|error| error.during("renew", claims.first().map(|claim| &claim.name)))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        Ensemble::withdraw(self, claim).await.map_err(|error| error.during("withdraw", Some(&claim.name)))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        Ensemble::survey(self, prefix).await.map_err(|error| error.during("survey", None))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        Ensemble::evict(self, name, claim).await.map_err(|error| error.during("evict", Some(name)))
    }

    async fn checkup(&self) -> Result<Checkup> {
        Ensemble::checkup(self).await.map_err(|error| error.during("checkup", None))
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.read_cell(name).await.map_err(|error| error.during("read", Some(name)))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        self.write_cell(name, write).await.map_err(|error| error.during("write", Some(name)))
    }
}
