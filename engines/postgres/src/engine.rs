//! The contract, kept by one server.

use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, CrashFrees, Engine, Exclusion, Guarantees, Line, Name, PublicId, Renewal, Result, Standing,
    TokenSurvives, WakeUp, Withdrawal, Write, Written,
};

use crate::error::{ENGINE, Fault};
use crate::hold::{DEFAULT_SILENCE, Hold, Silence};
use crate::server::Server;

/// The shortest lease: some round trips to a server in the same building with a commit to disk each, and slow ones
/// among them.
const MIN_TTL: Duration = Duration::from_millis(200);
/// A crashed holder's lock is given to the next one this much after its lease, at the latest: whoever is next looks
/// then.
const AFTER_LEASE: Duration = Duration::from_millis(250);

/// What one server promises for locks that are held this way, by connections that it ends when they are silent.
pub(crate) fn guarantees(hold: Hold, silence: Silence) -> Guarantees {
    let by_lease = hold == Hold::Lease;
    Guarantees {
        engine: ENGINE,
        exclusion: Exclusion::Server,
        token: TokenSurvives::Crash,
        fair: true,
        shared: true,
        permits: true,
        priority: true,
        cells: true,
        wake_up: WakeUp::Push,
        crash_frees: CrashFrees::AfterLease(if by_lease { AFTER_LEASE } else { silence.0 }),
        outlives_process: by_lease,
        min_ttl: MIN_TTL,
    }
}

impl Server {
    pub(crate) fn told<T>(&self, answer: Result<T, Fault>, operation: &'static str, name: Option<&Name>) -> Result<T> {
        answer.map_err(|fault| self.explain(fault).during(operation, name))
    }
}

#[async_trait]
impl Engine for Server {
    fn guarantees(&self) -> Guarantees {
        guarantees(Hold::Lease, Silence(DEFAULT_SILENCE))
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        self.told(Server::claim(self, claim).await, "claim", Some(&claim.name))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        self.told(Server::moved(self, claim).await, "wait", Some(&claim.name))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        self.told(Server::renew(self, claims).await, "renew", claims.first().map(|claim| &claim.name))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        self.told(Server::withdraw(self, claim).await, "withdraw", Some(&claim.name))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        self.told(Server::survey(self, prefix).await, "survey", None)
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        self.told(Server::evict(self, name, claim).await, "evict", Some(name))
    }

    async fn checkup(&self) -> Result<Checkup> {
        self.told(self.look_at_server().await, "checkup", None)
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.told(self.read_cell(name).await, "read", Some(name))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        self.told(self.write_cell(name, write).await, "write", Some(name))
    }
}
