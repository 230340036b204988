//! The contract, kept by connections: whoever's connection has `GET_LOCK`, or a row locked, has the lock.

mod connection;
mod connections;
mod grip;
mod roster;
mod ties;
mod written;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, Engine, Error, Guarantees, Kind, Line, Name, Patience, PublicId, Renewal, Result, Standing,
    Withdrawal, Write, Written,
};
use tokio::task::JoinSet;

pub(crate) use crate::bound::grip::Grip;
use crate::bound::roster::{Stage, Turn};
pub(crate) use crate::bound::ties::Ties;
use crate::bound::ties::Tried;
use crate::bound::written::{Agreeing, Joined, Joining, Raising};
use crate::claims::check;
use crate::error::ENGINE;
use crate::hold::Hold;
use crate::store::{Store, patience};
use crate::upkeep::keep_up;
use crate::waiters::pause;

/// One side of a client.
#[derive(Debug)]
pub(crate) struct Bound {
    store: Store,
    ties: Arc<Ties>,
    /// Ended with this side.
    _tasks: JoinSet<()>,
}

impl Bound {
    /// A side of a client. The keeper's ends what nobody renews, and sweeps up.
    pub(crate) fn new(store: Store, ties: Arc<Ties>, is_keeper: bool) -> Self {
        let mut tasks = JoinSet::new();
        if is_keeper {
            tasks.spawn(keep_up(Arc::downgrade(&store.pool), Arc::clone(&store.tables)));
            tasks.spawn(ties::end_leases(Arc::downgrade(&ties)));
        }
        Self { store, ties, _tasks: tasks }
    }

    async fn ask(&self, claim: &Claim) -> Result<Standing> {
        check(claim)?;
        self.knows(claim)?;
        loop {
            let tried = match self.ties.roster.enter(claim)? {
                // It cannot be: it has just been entered.
                Turn::Gone => continue,
                Turn::At(connection) => {
                    self.ties.settle(connection).await;
                    continue;
                }
                Turn::Granted(connection, token) => match self.again(claim, connection, token).await? {
                    Some(token) => return Ok(Standing::Granted { token }),
                    None => continue,
                },
                Turn::NotYet(_) => Tried::Busy,
                Turn::Yes => self.ties.take(claim, Duration::ZERO).await?,
            };
            match tried {
                Tried::Granted(token) => return Ok(Standing::Granted { token }),
                Tried::Evicted => return Ok(Standing::Refused),
                Tried::Unwanted => return Ok(Standing::Displaced),
                Tried::Again => {}
                Tried::NoneFree if claim.patience == Patience::None => return Err(self.ties.full()),
                Tried::Busy | Tried::NoneFree => return self.queue(claim).await,
            }
        }
    }

    /// A claim that has the lock was sent again. `None` when it turns out that it has it no more.
    async fn again(&self, claim: &Claim, connection: u64, token: u64) -> Result<Option<u64>> {
        match self.renew(std::slice::from_ref(claim)).await?.first() {
            Some(Renewal::Renewed) => {}
            Some(Renewal::Gone) => {
                self.ties.roster.leave(&claim.id);
                self.ties.let_go(connection, &claim.id, &claim.name).await?;
                return Ok(None);
            }
            _ => return Err(Error::new(Kind::TimedOut, "the connection that has the lock does not answer").unknown()),
        }
        if claim.floor > token {
            self.store.pool.run(patience(claim.ttl), &Raising { tables: &self.store.tables, claim }).await?;
            self.ties.roster.raised(&claim.id, claim.floor);
        }
        Ok(Some(token.max(claim.floor)))
    }

    /// Somebody else has it: the claim waits, or is refused.
    async fn queue(&self, claim: &Claim) -> Result<Standing> {
        if self.store.tables.hold() == Hold::Row {
            let agreeing = Agreeing { tables: &self.store.tables, claim };
            self.store.pool.run(patience(claim.ttl), &agreeing).await??;
        }
        if claim.patience == Patience::None {
            self.ties.roster.leave(&claim.id);
            return Ok(Standing::Refused);
        }
        let joining = Joining { tables: &self.store.tables, claim };
        match self.store.pool.run(patience(claim.ttl), &joining).await? {
            Joined::Evicted => {
                self.ties.roster.leave(&claim.id);
                Ok(Standing::Refused)
            }
            Joined::Queued(ahead) if self.ties.roster.written(&claim.id) => {
                self.ties.roster.renewed(claim);
                Ok(Standing::Queued { ahead })
            }
            // It was withdrawn meanwhile.
            Joined::Queued(_) => {
                self.store.withdraw(claim).await?;
                Ok(Standing::Displaced)
            }
        }
    }

    /// Whether this way to hold a lock knows this kind of lock.
    fn knows(&self, claim: &Claim) -> Result<()> {
        let alone = claim.weight == claim.capacity;
        let shared = claim.capacity == u32::MAX && claim.weight == 1;
        let guarantees = self.guarantees();
        if (alone && (claim.capacity == 1 || guarantees.shared)) || (shared && guarantees.shared) {
            return Ok(());
        }
        let what = match self.store.tables.hold() {
            Hold::Row => "a row is locked by one alone or by many readers, and by no other number",
            _ => "GET_LOCK has one holder: it knows neither readers nor permits",
        };
        Err(Error::new(Kind::Unsupported, what).help("use ?hold=lease, which knows every kind of lock"))
    }

    async fn wait(&self, claim: &Claim) -> Result<Option<Standing>> {
        let mut looks = 0;
        loop {
            let tried = match self.ties.roster.turn(&claim.id) {
                Turn::Gone => return Ok(None),
                Turn::Granted(_, token) => return Ok(Some(Standing::Granted { token })),
                Turn::At(connection) => {
                    self.ties.settle(connection).await;
                    continue;
                }
                Turn::NotYet(woken) => {
                    woken.notified().await;
                    continue;
                }
                Turn::Yes => self.ties.take(claim, Duration::ZERO).await?,
            };
            match tried {
                Tried::Granted(token) => return Ok(Some(Standing::Granted { token })),
                Tried::Evicted => return Ok(Some(Standing::Refused)),
                Tried::Unwanted => return Ok(None),
                Tried::Again => {}
                Tried::Busy | Tried::NoneFree => {
                    tokio::time::sleep(pause(0, looks, claim.ttl)).await;
                    looks += 1;
                }
            }
        }
    }
}

#[async_trait]
impl Engine for Bound {
    fn guarantees(&self) -> Guarantees {
        self.store.tables.hold().guarantees()
    }

    fn longest_lease(&self) -> Duration {
        self.ties.lasts
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let limit = patience(claim.ttl);
        let silence = |_| {
            let what = format!("no connection answered within {limit:?}");
            Err(Error::new(Kind::TimedOut, what).unknown().help("see whether the server is overloaded or out of reach"))
        };
        let claimed = tokio::time::timeout(limit, self.ask(claim)).await.unwrap_or_else(silence);
        claimed.map_err(|error| {
            // One that has nothing must not keep others of this client waiting.
            if self.ties.roster.stage(&claim.id) == Some(Stage::Waits) {
                self.ties.roster.leave(&claim.id);
            }
            error.engine(ENGINE).during("claim", Some(&claim.name))
        })
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        self.wait(claim).await.map_err(|error| error.engine(ENGINE).during("wait", Some(&claim.name)))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let known: Vec<_> = claims.iter().map(|claim| self.ties.roster.look(&claim.id)).collect();
        let written = |(claim, known): (&Claim, &Option<(Stage, bool)>)| {
            matches!(known, Some((_, true))).then(|| claim.clone())
        };
        let written: Vec<Claim> = claims.iter().zip(&known).filter_map(written).collect();
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(Duration::MAX);
        let (rows, answering) =
            tokio::join!(self.store.renew(&written), self.ties.speak(&known, patience(shortest / 3)));
        let mut rows = rows?.into_iter();
        let renewal = |(claim, known): (&Claim, &Option<(Stage, bool)>)| {
            let row = if matches!(known, Some((_, true))) { rows.next() } else { Some(Renewal::Renewed) };
            let renewal = match (known, row.unwrap_or(Renewal::Unknown)) {
                (None | Some((Stage::Leaves(_), _)), _) | (_, Renewal::Gone) => Renewal::Gone,
                (Some((Stage::Holds(connection, _), _)), Renewal::Renewed) => {
                    answering.get(connection).copied().unwrap_or(Renewal::Unknown)
                }
                (Some(_), row) => row,
            };
            if renewal == Renewal::Renewed {
                self.ties.roster.renewed(claim);
            }
            renewal
        };
        Ok(claims.iter().zip(&known).map(renewal).collect())
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let Some((stage, written)) = self.ties.roster.leave(&claim.id) else { return Ok(Withdrawal::NotThere) };
        let had = match stage {
            Stage::Waits => false,
            Stage::Asks(connection) | Stage::Holds(connection, _) | Stage::Leaves(connection) => {
                let let_go = self.ties.let_go(connection, &claim.id, &claim.name);
                let silence = |_| Err(Error::new(Kind::TimedOut, "the connection that has it does not answer").unknown());
                let had = tokio::time::timeout(patience(claim.ttl), let_go).await.unwrap_or_else(silence);
                had.map_err(|error| error.engine(ENGINE).during("withdraw", Some(&claim.name)))?
            }
        };
        if written && !had && !matches!(stage, Stage::Holds(..)) {
            self.store.withdraw(claim).await?;
        }
        let was_there = had || !matches!(stage, Stage::Holds(..) | Stage::Leaves(_));
        Ok(if was_there { Withdrawal::Withdrawn } else { Withdrawal::NotThere })
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
