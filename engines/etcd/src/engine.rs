//! The contract, kept by one side of a client.

use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, CrashFrees, Engine, Error, Exclusion, Guarantees, Kind, Line, Name, PublicId, Renewal,
    Result, Standing, TokenSurvives, WakeUp, Withdrawal, Write, Written,
};

use crate::claims::MIN_TTL;
use crate::error::ENGINE;
use crate::side::Side;

/// A crashed holder's lock is free this much after its lease, at the latest: its TTL is rounded up to whole seconds,
/// and etcd looks for leases that are over every half second.
const AFTER_LEASE: Duration = Duration::from_secs(2);

/// What a cluster with so many voting members promises.
pub(crate) fn guarantees(voters: usize) -> Guarantees {
    Guarantees {
        engine: ENGINE,
        exclusion: Exclusion::Consensus,
        // A cluster of two loses its majority with either of them.
        token: if voters > 2 { TokenSurvives::Members } else { TokenSurvives::Crash },
        fair: true,
        shared: true,
        permits: true,
        // Who goes ahead of others would get a larger token than those who are let in after it.
        priority: false,
        cells: true,
        wake_up: WakeUp::Push,
        crash_frees: CrashFrees::AfterLease(AFTER_LEASE),
        outlives_process: true,
        min_ttl: MIN_TTL,
    }
}

#[async_trait]
impl Engine for Side {
    fn guarantees(&self) -> Guarantees {
        guarantees(self.voters)
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let standing = Side::claim(self, claim).await;
        standing.map_err(|error| error.engine(ENGINE).during("claim", Some(&claim.name)))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        // Nothing is known of who is ahead: whoever asks again finds out.
        let Some(behind) = self.kept.behind(&claim.id) else { return Ok(None) };
        let mut watch = self.watches.watch(&self.link, &self.keys.line(&claim.name), behind);
        if watch.told().await {
            return Ok(None);
        }
        let what = format!("the connection to {} broke", self.link.address());
        Err(Error::new(Kind::Unreachable, what).engine(ENGINE).during("wait", Some(&claim.name)))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let renewals = Side::renew(self, claims).await;
        renewals.map_err(|error| error.during("renew", claims.first().map(|claim| &claim.name)))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        Side::withdraw(self, claim).await.map_err(|error| error.during("withdraw", Some(&claim.name)))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        Side::survey(self, prefix).await.map_err(|error| error.during("survey", None))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let evicted = Side::evict(self, name, claim).await;
        evicted.map_err(|error| error.engine(ENGINE).during("evict", Some(name)))
    }

    async fn checkup(&self) -> Result<Checkup> {
        Side::checkup(self).await.map_err(|error| error.during("checkup", None))
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.read_cell(name).await.map_err(|error| error.during("read", Some(name)))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        let written = self.write_cell(name, write).await;
        written.map_err(|error| error.engine(ENGINE).during("write", Some(name)))
    }
}
