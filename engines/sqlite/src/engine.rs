//! The contract, kept by one connection.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, Engine, Guarantees, Happened, Line, Name, PublicId, Renewal, Result, Standing, Withdrawal,
    Write, Written,
};
use rusqlite::Connection;
use tokio::task::JoinSet;

use crate::claims::check;
use crate::client::Client;
use crate::error::ENGINE;
use crate::line::{HOLDS, WAITS, find};
use crate::store::{PATIENCE, Store, patience};
use crate::upkeep::Upkeep;
use crate::watch::Watch;

/// So many leases are renewed in one transaction: others want to write too.
const RENEWALS_AT_ONCE: usize = 1000;

/// One side of a client.
#[derive(Debug)]
pub(crate) struct Embedded {
    store: Arc<Store>,
    /// Owned by the side that began the client, and ended with it.
    _tasks: JoinSet<()>,
}

impl Embedded {
    /// A side of a client; the first one also watches for its waiters and keeps the file up.
    pub(crate) fn new(connection: Connection, path: &Path, client: Arc<Client>, first: bool) -> Self {
        let store = Arc::new(Store::new(connection, path, client));
        let mut tasks = JoinSet::new();
        if first {
            tasks.spawn(Watch::new(&store).run());
            tasks.spawn(Upkeep::new(&store).run());
        }
        Self { store, _tasks: tasks }
    }

    async fn renew_some(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(PATIENCE);
        let answers = self
            .store
            .write(patience(shortest), |tx| claims.iter().map(|claim| tx.renew(claim)).collect::<Result<Vec<_>, _>>())
            .await?;
        for (claim, answer) in claims.iter().zip(&answers) {
            if *answer == Renewal::Gone || claim.lingers {
                self.store.client.keeps_no_more(&claim.id);
            } else {
                self.store.client.keeps(claim.id);
            }
        }
        Ok(answers)
    }
}

#[async_trait]
impl Engine for Embedded {
    fn guarantees(&self) -> Guarantees {
        crate::Sqlite::guarantees()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        check(claim).map_err(|error| error.engine(ENGINE).during("claim", Some(&claim.name)))?;
        let client = &self.store.client;
        // Before it is sent: whatever becomes of this call, the claim may be there.
        let new = !claim.lingers && client.keeps(claim.id);
        let standing = self.store.write(patience(claim.ttl), |tx| tx.claim(claim)).await;
        let is_not_there = match &standing {
            Ok(standing) => *standing == Standing::Refused,
            Err(error) => new && error.may_have_happened() == Happened::No,
        };
        if is_not_there {
            client.keeps_no_more(&claim.id);
        }
        standing.map_err(|error| error.during("claim", Some(&claim.name)))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        // Registered first and looked up afterwards: whatever happens is seen by one of both.
        let mut registration = self.store.client.waiters.register(claim);
        let stored = self.store.read(|connection| find(connection, &claim.name, &claim.id)).await;
        match stored.map_err(|error| error.during("wait", Some(&claim.name)))? {
            Some(stored) if stored.state == WAITS => Ok(registration.told().await),
            Some(stored) if stored.state == HOLDS => Ok(stored.token.map(|token| Standing::Granted { token })),
            _ => Ok(None),
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let mut answers = Vec::with_capacity(claims.len());
        for some in claims.chunks(RENEWALS_AT_ONCE) {
            match self.renew_some(some).await {
                Ok(renewed) => answers.extend(renewed),
                Err(error) if answers.is_empty() => {
                    return Err(error.during("renew", some.first().map(|claim| &claim.name)));
                }
                // What was answered stays answered.
                Err(_) => answers.extend(some.iter().map(|_| Renewal::Unknown)),
            }
            if answers.len() < claims.len() {
                tokio::task::yield_now().await;
            }
        }
        Ok(answers)
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let withdrawal = self.store.write(patience(claim.ttl), |tx| tx.withdraw(claim)).await;
        if withdrawal.is_ok() {
            self.store.client.keeps_no_more(&claim.id);
        }
        withdrawal.map_err(|error| error.during("withdraw", Some(&claim.name)))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let client = &self.store.client;
        let lines = self.store.read(|connection| crate::survey::survey(connection, client, prefix)).await;
        lines.map_err(|error| error.during("survey", None))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let evicted = self.store.write(PATIENCE, |tx| tx.evict(name, claim)).await;
        evicted.map_err(|error| error.during("evict", Some(name)))
    }

    async fn checkup(&self) -> Result<Checkup> {
        let path = &self.store.path;
        let checkup = self.store.read(|connection| crate::checkup::checkup(connection, path)).await;
        checkup.map_err(|error| error.during("checkup", None))
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        let cell = self.store.read(|connection| crate::cells::read(connection, name)).await;
        cell.map_err(|error| error.during("read", Some(name)))
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        let written = self.store.write(PATIENCE, |tx| tx.write_cell(name, write)).await;
        written.map_err(|error| error.during("write", Some(name)))
    }
}
