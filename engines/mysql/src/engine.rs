//! The contract, kept by rows with leases.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, ClaimId, Engine, Error, Guarantees, Line, Name, PublicId, Renewal, Result, Standing,
    Withdrawal, Write, Written,
};
use tokio::task::JoinSet;

use crate::claims::{Claiming, check};
use crate::error::{ENGINE, Fault};
use crate::hold::Hold;
use crate::store::{Store, patience};
use crate::unwritten::write_down;
use crate::upkeep::keep_up;
use crate::waiters::{Glance, Seen, Waiters, pause};

/// One side of a client.
#[derive(Debug)]
pub(crate) struct Leases {
    store: Store,
    waiters: Arc<Waiters>,
    /// Ended with this side.
    _tasks: JoinSet<()>,
}

impl Leases {
    /// A side of a client; the one that sweeps up does so until it ends.
    pub(crate) fn new(store: Store, waiters: Arc<Waiters>, sweeps: bool) -> Self {
        let mut tasks = JoinSet::new();
        if sweeps {
            let (pool, tables) = (Arc::downgrade(&store.pool), &store.tables);
            tasks.spawn(keep_up(Weak::clone(&pool), Arc::clone(tables)));
            tasks.spawn(write_down(pool, Arc::clone(tables), Arc::clone(&store.unwritten)));
        }
        Self { store, waiters, _tasks: tasks }
    }

    /// Whether a claim is known to wait in line.
    pub(crate) fn has_in_line(&self, claim: &Claim) -> bool {
        self.waiters.knows(&claim.id)
    }

    /// Whether a claim may take its turn by the connection that will hold its lock, and what this client gave back
    /// last, if the lock's row may not say so yet. Now and then it may not, because it is to ask for the server's time.
    pub(crate) fn may_enter(&self, claim: &Claim) -> Option<Option<ClaimId>> {
        let may = check(claim).is_ok() && !self.store.pool.wants_time() && !self.store.unwritten.knows(&claim.id);
        may.then(|| self.store.unwritten.last(&claim.name))
    }

    /// Takes note of a claim that has got its turn by the connection that holds its lock.
    pub(crate) fn entered(&self, claim: &Claim, token: u64) {
        self.waiters.answered(claim.id, Standing::Granted { token });
        self.store.pool.clock.claimed(claim, Standing::Granted { token });
    }

    /// Whether a claim that holds a lock which nobody else seems to want may leave by the connection that holds it.
    pub(crate) fn may_leave(&self) -> bool {
        self.store.unwritten.is_well()
    }

    /// Takes note that the server refused that.
    pub(crate) fn refused(&self, why: &Fault) {
        self.store.unwritten.refused(why);
    }

    /// Takes note of a claim that has left so: it is yet to be written down.
    pub(crate) fn left(&self, claim: &Claim) {
        self.store.pool.clock.withdrawn(&claim.id);
        self.store.unwritten.told(claim);
        self.waiters.left(&claim.name, &claim.id);
    }

    /// Withdraws a claim that holds a lock that nobody else seems to want: that is not written down at once.
    pub(crate) async fn withdraw_quietly(&self, claim: &Claim) -> Result<Withdrawal> {
        let withdrawal = self.store.withdraw_quietly(claim).await;
        self.waiters.left(&claim.name, &claim.id);
        withdrawal
    }

    /// Looks until the claim may have moved.
    async fn wait(&self, claim: &Claim) -> Result<Option<Standing>> {
        let (mut looks, mut before) = (0, None);
        tokio::time::sleep(pause(0, looks, claim.ttl)).await;
        loop {
            let glance = Glance { tables: &self.store.tables, name: &claim.name, id: &claim.id };
            match self.store.pool.run(patience(claim.ttl), &glance).await? {
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
        Hold::Lease.guarantees(Duration::ZERO)
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let claimed = async {
            check(claim)?;
            let in_line = self.has_in_line(claim);
            if self.store.unwritten.knows(&claim.id) {
                // It was given back, and everybody takes it for over.
                return Ok(Standing::Displaced);
            }
            let before = self.store.unwritten.last(&claim.name);
            let claiming = Claiming { tables: &self.store.tables, claim, in_line, before };
            let standing = self.store.pool.run(patience(claim.ttl), &claiming).await??;
            self.waiters.answered(claim.id, standing);
            self.store.pool.clock.claimed(claim, standing);
            Ok(standing)
        };
        claimed.await.map_err(|error: Error| error.engine(ENGINE).during("claim", Some(&claim.name)))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        self.wait(claim).await.map_err(|error| error.during("wait", Some(&claim.name)))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        self.store.renew(claims).await
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let withdrawal = self.store.withdraw(claim).await;
        self.waiters.left(&claim.name, &claim.id);
        withdrawal
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        self.store.survey(prefix).await
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        self.store.evict(name, claim).await
    }

    async fn checkup(&self) -> Result<Checkup> {
        self.store.checkup().await
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.store.read(name).await
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        self.store.write(name, write).await
    }
}
