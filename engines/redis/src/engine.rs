//! The contract, kept by one server.

use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, CrashFrees, Engine, Exclusion, Guarantees, Line, Name, PublicId, Renewal, Result, Standing,
    TokenSurvives, WakeUp, Withdrawal, Write, Written,
};

use crate::error::ENGINE;
use crate::server::Server;

/// The shortest lease: some round trips to a server in the same building, and a slow one among them.
const MIN_TTL: Duration = Duration::from_millis(100);
/// A crashed holder's lock is given to the next one this much after its lease, at the latest: Redis itself ends the
/// lease to the millisecond, and whoever is next looks then.
const AFTER_LEASE: Duration = Duration::from_millis(250);

/// What one server promises.
pub(crate) fn guarantees() -> Guarantees {
    Guarantees {
        engine: ENGINE,
        exclusion: Exclusion::Server,
        // Also a crash of the server, as long as its clock is not set back at the same time: which nobody can promise.
        token: TokenSurvives::Clients,
        fair: true,
        shared: true,
        permits: true,
        priority: true,
        cells: true,
        wake_up: WakeUp::Push,
        crash_frees: CrashFrees::AfterLease(AFTER_LEASE),
        outlives_process: true,
        min_ttl: MIN_TTL,
    }
}

#[async_trait]
impl Engine for Server {
    fn guarantees(&self) -> Guarantees {
        guarantees()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let standing = Server::claim(self, claim).await;
        standing.map_err(|error| error.engine(ENGINE).during("claim", Some(&claim.name)))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        let moved = Server::moved(self, claim).await;
        moved.map_err(|error| error.engine(ENGINE).during("wait", Some(&claim.name)))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let renewals = Server::renew(self, claims).await;
        renewals.map_err(|error| error.during("renew", claims.first().map(|claim| &claim.name)))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        Server::withdraw(self, claim).await.map_err(|error| error.during("withdraw", Some(&claim.name)))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        Server::survey(self, prefix).await.map_err(|error| error.during("survey", None))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        Server::evict(self, name, claim).await.map_err(|error| error.during("evict", Some(name)))
    }

    async fn checkup(&self) -> Result<Checkup> {
        Server::checkup(self).await.map_err(|error| error.during("checkup", None))
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.read_cell(name).await.map_err(|error| error.during("read", Some(name)))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        self.write_cell(name, write).await.map_err(|error| error.during("write", Some(name)))
    }
}
