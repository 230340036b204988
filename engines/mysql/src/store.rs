//! What every way to hold a lock does alike: the verbs about what is written down.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Cell, Checkup, Claim, Line, Name, PublicId, Renewal, Result, Withdrawal, Write, Written};

use crate::cells::{Reading, Writing};
use crate::claims::{Evicting, Renewing, Withdrawing};
use crate::pool::Pool;
use crate::settings::CheckingUp;
use crate::statement::Tables;
use crate::survey::Surveying;
use crate::unwritten::{Telling, Unwritten};

/// So many leases are renewed by one statement.
const RENEWALS_AT_ONCE: usize = 250;
/// A request that is about no lease is given up after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
/// The shortest time a request is given.
const IMPATIENCE: Duration = Duration::from_millis(100);

/// The tables, and the connections of one side of a client to them.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) pool: Arc<Pool>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) unwritten: Arc<Unwritten>,
}

impl Store {
    pub(crate) async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let mut renewals = Vec::with_capacity(claims.len());
        for some in claims.chunks(RENEWALS_AT_ONCE) {
            let shortest = some.iter().map(|claim| claim.ttl).min().unwrap_or(PATIENCE);
            let renewing = Renewing { tables: &self.tables, claims: some };
            match self.pool.run(patience(shortest / 3), &renewing).await {
                Ok(renewed) => {
                    let worth = |(claim, renewal): (&Claim, Renewal)| {
                        let over = self.unwritten.knows(&claim.id);
                        self.pool.clock.renewed(claim, if over { Renewal::Gone } else { renewal })
                    };
                    renewals.extend(some.iter().zip(renewed).map(worth));
                }
                Err(error) if renewals.is_empty() => {
                    return Err(error.during("renew", some.first().map(|claim| &claim.name)));
                }
                // What was answered stays answered.
                Err(_) => renewals.extend(some.iter().map(|_| Renewal::Unknown)),
            }
        }
        Ok(renewals)
    }

    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let withdrawal = self.pool.run(patience(claim.ttl), &Withdrawing { tables: &self.tables, claim }).await;
        self.pool.clock.withdrawn(&claim.id);
        match withdrawal {
            // It was given back before, and everybody knows.
            Ok(_) if self.unwritten.knows(&claim.id) => Ok(Withdrawal::NotThere),
            withdrawal => withdrawal.map_err(|error| error.during("withdraw", Some(&claim.name))),
        }
    }

    /// Gives back what nobody else seems to want: everybody is told, and the keeper writes it down.
    pub(crate) async fn withdraw_quietly(&self, claim: &Claim) -> Result<Withdrawal> {
        let (withdrawing, unwritten) = (Withdrawing { tables: &self.tables, claim }, &*self.unwritten);
        let telling = self.pool.run(patience(claim.ttl), &Telling { withdrawing, unwritten }).await;
        self.pool.clock.withdrawn(&claim.id);
        let (withdrawal, told) = telling.map_err(|error| {
            unwritten.failed(&error);
            error.during("withdraw", Some(&claim.name))
        })?;
        if told {
            unwritten.told(claim);
        }
        Ok(withdrawal)
    }

    pub(crate) async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let lines = self.pool.run(PATIENCE, &Surveying { tables: &self.tables, prefix }).await;
        lines.map_err(|error| error.during("survey", None))
    }

    pub(crate) async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let evicted = self.pool.run(PATIENCE, &Evicting { tables: &self.tables, name, claim }).await;
        evicted.map_err(|error| error.during("evict", Some(name)))
    }

    pub(crate) async fn checkup(&self) -> Result<Checkup> {
        let checkup = self.pool.run(PATIENCE, &CheckingUp { tables: &self.tables }).await;
        checkup.map_err(|error| error.during("checkup", None))
    }

    pub(crate) async fn read(&self, name: &Name) -> Result<Cell> {
        let cell = self.pool.run(PATIENCE, &Reading { tables: &self.tables, name }).await;
        cell.map_err(|error| error.during("read", Some(name)))
    }

    pub(crate) async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        let written = self.pool.run(PATIENCE, &Writing { tables: &self.tables, name, write }).await;
        written.map_err(|error| error.during("write", Some(name)))
    }
}

/// How long an answer is waited for when the lease is this long.
pub(crate) fn patience(ttl: Duration) -> Duration {
    ttl.clamp(IMPATIENCE, PATIENCE)
}
