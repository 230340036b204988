//! The contract, kept by one side of a client.

use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, CrashFrees, Engine, Error, Exclusion, Guarantees, Line, Name, PublicId, Renewal, Result,
    Standing, TokenSurvives, WakeUp, Withdrawal, Write, Written,
};

use crate::error::ENGINE;
use crate::session::Terms;
use crate::side::{Side, Topology};

/// The shortest lease: some transactions, and a slow one among them.
const MIN_TTL: Duration = Duration::from_secs(1);

/// What so many servers promise to a client with such a session.
pub(crate) fn guarantees(terms: &Terms, topology: Topology) -> Guarantees {
    Guarantees {
        engine: ENGINE,
        exclusion: Exclusion::Consensus,
        token: match topology {
            Topology { forgetful: true, .. } => TokenSurvives::Clients,
            // Two servers lose their majority with either of them.
            Topology { servers: 3.., .. } => TokenSurvives::Members,
            _ => TokenSurvives::Crash,
        },
        fair: true,
        shared: true,
        permits: true,
        // Who goes ahead of others would get a larger token than those who are let in after it.
        priority: false,
        cells: true,
        wake_up: WakeUp::Push,
        // Consul ends a session when twice its TTL has passed without a renewal, and the pause after that is ours to
        // ask for. A lease may be as short as the shortest.
        crash_frees: CrashFrees::AfterLease(terms.ttl * 2 + terms.lock_delay),
        outlives_process: false,
        min_ttl: MIN_TTL,
    }
}

fn about(error: Error, operation: &'static str, name: Option<&Name>) -> Error {
    error.engine(ENGINE).during(operation, name)
}

#[async_trait]
impl Engine for Side {
    fn guarantees(&self) -> Guarantees {
        guarantees(self.session.terms(), self.topology)
    }

    fn longest_lease(&self) -> Duration {
        self.session.terms().longest_lease()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        Side::claim(self, claim).await.map_err(|error| about(error, "claim", Some(&claim.name)))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        Side::moved(self, claim).await.map_err(|error| about(error, "wait", Some(&claim.name)))?;
        Ok(None)
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let name = claims.first().map(|claim| &claim.name);
        Side::renew(self, claims).await.map_err(|error| about(error, "renew", name))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        Side::withdraw(self, claim).await.map_err(|error| about(error, "withdraw", Some(&claim.name)))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        Side::survey(self, prefix).await.map_err(|error| about(error, "survey", None))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        Side::evict(self, name, claim).await.map_err(|error| about(error, "evict", Some(name)))
    }

    async fn checkup(&self) -> Result<Checkup> {
        Side::checkup(self).await.map_err(|error| about(error, "checkup", None))
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.read_cell(name).await.map_err(|error| about(error, "read", Some(name)))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        self.write_cell(name, write).await.map_err(|error| about(error, "write", Some(name)))
    }
}
