//! The contract, kept by the line in the tables and, against other programs, by a bolt for each claim that has its
//! turn.

mod bolts;
mod connection;
mod connections;
mod grip;
mod here;
mod ties;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lockhouse_core::{
    Cell, Checkup, Claim, Engine, Error, Guarantees, Kind, Line, Name, Patience, PublicId, Renewal, Result, Standing,
    Withdrawal, Write, Written, beside,
};
use tokio::task::JoinSet;

use crate::bolt::bolts::Stage;
pub(crate) use crate::bolt::grip::Grip;
use crate::bolt::ties::Shut;
pub(crate) use crate::bolt::ties::Ties;
use crate::engine::Leases;
use crate::error::ENGINE;
use crate::hold::Hold;
use crate::store::patience;
use crate::waiters::pause;

/// How long opening a bolt keeps its claim from leaving the line, and how long it may take if it leaves with that: the
/// statement waits for a second at most.
const OPENING: Duration = Duration::from_secs(1);
const LEAVING: Duration = Duration::from_millis(1500);

/// One side of a client that holds its locks by connections as well.
#[derive(Debug)]
pub(crate) struct Bolted {
    line: Leases,
    ties: Arc<Ties>,
    /// Ended with this side.
    _tasks: JoinSet<()>,
}

impl Bolted {
    /// A side of a client. The keeper's opens what nobody wants any more.
    pub(crate) fn new(line: Leases, ties: Arc<Ties>, is_keeper: bool) -> Self {
        let mut tasks = JoinSet::new();
        if is_keeper {
            tasks.spawn(ties::open_expired(Arc::downgrade(&ties)));
        }
        Self { line, ties, _tasks: tasks }
    }

    async fn ask(&self, claim: &Claim) -> Result<Standing> {
        self.knows(claim)?;
        if !self.ties.have_room(&claim.id) {
            return Err(self.ties.full());
        }
        let (_asked, waited) = (self.ties.bolts.ask(&claim.id), self.line.has_in_line(claim));
        let (token, shut) = if !waited && self.ties.in_advance(claim) {
            match self.ask_for_both(claim).await {
                Ok(both) => both,
                Err(other) => return other,
            }
        } else {
            match self.line.claim(claim).await? {
                Standing::Granted { token } => (token, self.ties.shut(claim, Some(token)).await?),
                other => return Ok(other),
            }
        };
        if !waited {
            self.ties.quiet_names.quiet(&claim.name);
        }
        match shut {
            Shut::Yes => Ok(Standing::Granted { token }),
            Shut::Lost => {
                self.withdraw(claim).await?;
                Ok(Standing::Displaced)
            }
            Shut::Busy | Shut::NoneFree if claim.patience == Patience::None => {
                self.withdraw(claim).await?;
                Ok(Standing::Refused)
            }
            Shut::Busy | Shut::NoneFree => Ok(Standing::Queued { ahead: 1 }),
        }
    }

    /// Shuts the bolt while the turn is asked for, since nobody else is likely to want the lock: its token, and whether
    /// the bolt is shut. When it is not the claim's turn, what was answered.
    async fn ask_for_both(&self, claim: &Claim) -> Result<(u64, Shut), Result<Standing>> {
        let _advance = Advance { ties: &self.ties, claim };
        if let Some(before) = self.line.may_enter(claim)
            && let Some(token) = self.ties.enter(claim, before).await
        {
            self.line.entered(claim, token);
            if let Some(Stage::Shut(..)) = self.ties.bolts.wants(claim, Some(token)) {
                return Ok((token, Shut::Yes));
            }
        }
        let turn = async {
            match self.line.claim(claim).await {
                Ok(Standing::Granted { token }) => Ok(token),
                other => Err(other),
            }
        };
        let (token, shut) = beside(turn, self.ties.shut(claim, None)).await?;
        if let (Ok(Shut::Yes), Some(Stage::Shut(..))) = (shut, self.ties.bolts.wants(claim, Some(token))) {
            return Ok((token, Shut::Yes));
        }
        Ok((token, self.ties.shut(claim, Some(token)).await.map_err(Err)?))
    }

    /// `GET_LOCK` has one holder.
    fn knows(&self, claim: &Claim) -> Result<()> {
        if self.ties.hold == Hold::Row || claim.capacity == 1 {
            return Ok(());
        }
        let what = "GET_LOCK has one holder: with ?hold=session there are neither readers nor permits";
        Err(Error::new(Kind::Unsupported, what).help("use ?hold=lease or ?hold=row"))
    }

    async fn wait(&self, claim: &Claim) -> Result<Option<Standing>> {
        let mut looks = 0;
        let _asked = self.ties.bolts.ask(&claim.id);
        loop {
            let token = match self.ties.bolts.look(&claim.id) {
                // It has its turn but for another program.
                Some((Stage::Busy, Some(token))) => token,
                _ => match self.line.moved(claim).await? {
                    Some(Standing::Granted { token }) => token,
                    other => return Ok(other),
                },
            };
            match self.ties.shut(claim, Some(token)).await? {
                Shut::Yes => return Ok(Some(Standing::Granted { token })),
                Shut::Lost => return Ok(None),
                Shut::Busy | Shut::NoneFree => tokio::time::sleep(pause(0, looks, claim.ttl)).await,
            }
            looks += 1;
        }
    }

    /// What the connections say of these claims: `Renewed` also for those that have nothing shut yet.
    async fn confirm(&self, claims: &[Claim], limit: Duration) -> Vec<Renewal> {
        let known: Vec<_> = claims.iter().map(|claim| self.ties.bolts.look(&claim.id)).collect();
        let answering = self.ties.speak(known.iter().flatten().map(|(stage, _)| *stage), limit).await;
        let each = claims.iter().zip(known).map(async |(claim, known)| match known {
            // Whoever asks for its turn shuts its bolt or opens it.
            None | Some((_, None) | (Stage::Busy, _)) => Renewal::Renewed,
            Some((Stage::Lost, _)) => Renewal::Gone,
            Some((Stage::Shut(connection, _), _)) if answering.get(&connection) == Some(&true) => Renewal::Renewed,
            // Its connection broke: another one may shut it again, unless another program was faster.
            Some((_, token)) => match tokio::time::timeout(limit, self.ties.shut(claim, token)).await {
                Ok(Ok(Shut::Yes)) => Renewal::Renewed,
                Ok(Ok(Shut::Lost)) => Renewal::Gone,
                _ => Renewal::Unknown,
            },
        });
        join_all(each).await
    }
}

/// A bolt that is shut in advance, until it is known whether the claim has its turn.
struct Advance<'a> {
    ties: &'a Ties,
    claim: &'a Claim,
}

impl Drop for Advance<'_> {
    fn drop(&mut self) {
        self.ties.forgo(self.claim);
    }
}

#[async_trait]
impl Engine for Bolted {
    fn guarantees(&self) -> Guarantees {
        self.ties.hold.guarantees(self.ties.lasts)
    }

    fn longest_lease(&self) -> Duration {
        self.ties.lasts
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let limit = patience(claim.ttl);
        let claimed =
            tokio::time::timeout(limit, self.ask(claim)).await.unwrap_or_else(|_| Err(self.ties.silent(limit)));
        claimed.map_err(|error| error.engine(ENGINE).during("claim", Some(&claim.name)))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        self.wait(claim).await.map_err(|error| error.engine(ENGINE).during("wait", Some(&claim.name)))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(Duration::MAX);
        let (renewals, confirmed) = tokio::join!(self.line.renew(claims), self.confirm(claims, patience(shortest / 4)));
        let each = claims.iter().zip(renewals?).zip(confirmed).map(|((claim, renewal), confirmed)| {
            let both = match (renewal, confirmed) {
                (Renewal::Gone, _) | (_, Renewal::Gone) => Renewal::Gone,
                (Renewal::Renewed, Renewal::Renewed) => Renewal::Renewed,
                _ => Renewal::Unknown,
            };
            if both == Renewal::Renewed {
                self.ties.bolts.renewed(claim);
            }
            both
        });
        Ok(each.collect())
    }

    /// Opens the bolt before the line is left, or by the same request while nobody else seems to be there: a claim that
    /// would not wait and got its turn from one whose bolt is still shut would be turned away, and so would whoever
    /// meets it on its way out, although the lock is free. A bolt that does not open in time keeps nobody from leaving.
    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let quiet = self.ties.bolts.is_quiet(&claim.id);
        let may_leave = quiet && self.line.may_leave();
        let limit = patience(claim.ttl / 4).min(OPENING) + if may_leave { LEAVING } else { Duration::ZERO };
        let opened = match tokio::time::timeout(limit, self.ties.open(claim, may_leave)).await {
            Ok(Ok(true)) => {
                self.line.left(claim);
                return Ok(Withdrawal::Withdrawn);
            }
            Ok(Ok(false)) => Ok(()),
            Ok(Err(fault)) => {
                self.line.refused(&fault);
                Ok(())
            }
            Err(_) => Err(self.ties.silent(limit).engine(ENGINE).during("withdraw", Some(&claim.name))),
        };
        let withdrawal =
            if quiet { self.line.withdraw_quietly(claim).await? } else { self.line.withdraw(claim).await? };
        opened.map(|()| withdrawal)
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        self.line.survey(prefix).await
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        self.line.evict(name, claim).await
    }

    async fn checkup(&self) -> Result<Checkup> {
        self.line.checkup().await
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        self.line.read(name).await
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        self.line.write(name, write).await
    }
}
