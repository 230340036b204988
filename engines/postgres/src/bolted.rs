//! The contract, kept by the line in the tables and, against other programs, by a bolt for each claim that has its
//! turn.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{
    Cell, Checkup, Claim, Clock, Engine, Error, Guarantees, Kind, Line, Moment, Name, Patience, PublicId, Renewal,
    Result, Standing, Withdrawal, Write, Written, beside,
};

use crate::bolts::{Bolts, Shut, until_open};
use crate::engine::guarantees;
use crate::error::Fault;
use crate::hold::{Hold, Silence};
use crate::server::{Server, patience_for};

/// How long opening a bolt keeps its claim from leaving the line.
const OPENING: Duration = Duration::from_secs(1);

/// One side of a client that holds its locks by connections as well.
#[derive(Debug)]
pub(crate) struct Bolted {
    pub(crate) line: Server,
    pub(crate) bolts: Arc<Bolts>,
    pub(crate) hold: Hold,
    pub(crate) silence: Silence,
}

impl Bolted {
    async fn claim(&self, claim: &Claim) -> Result<Standing, Fault> {
        if !self.bolts.has_room(&claim.id) {
            return Err(full().into());
        }
        let (sent, _asking) = (Clock::Boot.now(), self.bolts.asking(claim.id));
        let (token, shut) = if self.hold == Hold::Session && self.bolts.quiet_names.expect(claim) {
            match self.claim_both(claim, sent).await {
                Ok(both) => both,
                Err(other) => return other,
            }
        } else {
            match Server::claim(&self.line, claim).await? {
                Standing::Granted { token } => (token, self.bolts.shut(claim, Some(token), sent, limit(claim)).await?),
                other => return Ok(other),
            }
        };
        self.bolts.quiet_names.quiet(&claim.name);
        match shut {
            Shut::Yes => Ok(Standing::Granted { token }),
            Shut::Lost => Ok(Standing::Displaced),
            _ if claim.patience == Patience::None => {
                self.withdraw(claim).await?;
                Ok(Standing::Refused)
            }
            _ => Ok(Standing::Queued { ahead: 1 }),
        }
    }

    /// Shuts the bolt while the turn is asked for, since nobody else is likely to want the lock: its token, and whether
    /// the bolt is shut. When it is not the claim's turn, what was answered.
    async fn claim_both(&self, claim: &Claim, sent: Moment) -> Result<(u64, Shut), Result<Standing, Fault>> {
        let _advance = Advance { bolts: &self.bolts, claim };
        if let Some(token) = self.claim_by_one(claim, sent).await.map_err(Err)? {
            return Ok((token, Shut::Yes));
        }
        let turn = async {
            match Server::claim(&self.line, claim).await {
                Ok(Standing::Granted { token }) => Ok(token),
                other => Err(other),
            }
        };
        let (token, shut) = match beside(turn, self.bolts.shut(claim, None, sent, limit(claim))).await {
            Ok(both) => both,
            Err(other) => {
                if let Some(phase) = self.bolts.forgo(claim) {
                    // If it does not open in time, it does with the end of its connection.
                    drop(until_open(phase, limit(claim)).await);
                }
                return Err(other);
            }
        };
        if self.bolts.is_held(claim, token, sent) && matches!(shut, Ok(Shut::Yes)) {
            return Ok((token, Shut::Yes));
        }
        let shut = self.bolts.shut(claim, Some(token), sent, limit(claim)).await;
        shut.map(|shut| (token, shut)).map_err(Err)
    }

    /// Does both by one request, if it can: its token.
    async fn claim_by_one(&self, claim: &Claim, sent: Moment) -> Result<Option<u64>, Fault> {
        let said = self.line.said(claim)?;
        let Some(turn) = self.bolts.enter_alone(claim, said, sent, limit(claim)).await? else { return Ok(None) };
        let token = self.line.entered(claim, turn, sent);
        Ok(self.bolts.is_held(claim, token, sent).then_some(token))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>, Fault> {
        let _asking = self.bolts.asking(claim.id);
        let token = match self.bolts.pending(&claim.id) {
            Some(token) => token,
            None => match Server::moved(&self.line, claim).await? {
                Some(Standing::Granted { token }) => {
                    self.bolts.shut(claim, Some(token), Clock::Boot.now(), limit(claim)).await?;
                    token
                }
                other => return Ok(other),
            },
        };
        let shut = self.bolts.until_shut(&claim.id).await;
        Ok((shut == Shut::Yes).then_some(Standing::Granted { token }))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>, Fault> {
        let sent = Clock::Boot.now();
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(Duration::MAX);
        let (renewals, shut) =
            tokio::join!(Server::renew(&self.line, claims), self.bolts.confirm(claims, patience_for(shortest / 3)));
        let each = claims.iter().zip(renewals?).zip(shut).map(|((claim, renewal), shut)| match (renewal, shut) {
            (_, Shut::Lost) => Renewal::Gone,
            (Renewal::Renewed, Shut::Yes | Shut::NotYet) => {
                self.bolts.extend(&claim.id, sent + claim.ttl);
                Renewal::Renewed
            }
            (Renewal::Renewed, Shut::Unknown) => Renewal::Unknown,
            (other, _) => other,
        });
        Ok(each.collect())
    }

    /// Opens the bolt, by one request with leaving the line while nobody else seems to be there, or before that: a
    /// claim that would not wait and got its turn from one whose bolt is still shut would be turned away, and so would
    /// whoever meets it on its way out, although the lock is free. A bolt that does not open in time keeps nobody from
    /// leaving: its connection ends by itself.
    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal, Fault> {
        let (sent, limit) = (Clock::Boot.now(), patience_for(claim.ttl / 4).min(OPENING));
        let opened = self.bolts.open(&claim.id, limit).await;
        if let Ok(Some(left)) = opened {
            return Ok(self.line.left(claim, left, sent));
        }
        let withdrawal = Server::withdraw(&self.line, claim).await?;
        opened.map(|_| withdrawal)
    }
}

/// A bolt that is shut in advance, until it is known whether the claim has its turn.
struct Advance<'a> {
    bolts: &'a Bolts,
    claim: &'a Claim,
}

impl Drop for Advance<'_> {
    fn drop(&mut self) {
        drop(self.bolts.forgo(self.claim));
    }
}

/// What a claim waits for its bolt.
fn limit(claim: &Claim) -> Duration {
    patience_for(claim.ttl * 3 / 4)
}

fn full() -> Error {
    Error::new(Kind::Full, "this client holds as many locks by rows as it has connections for them")
        .help("write ?rows= with a larger number, or ?hold=session, which needs no connection for each")
}

#[async_trait]
impl Engine for Bolted {
    fn guarantees(&self) -> Guarantees {
        guarantees(self.hold, self.silence)
    }

    fn longest_lease(&self) -> Duration {
        self.silence.longest_lease()
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        self.line.told(Bolted::claim(self, claim).await, "claim", Some(&claim.name))
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        self.line.told(Bolted::moved(self, claim).await, "wait", Some(&claim.name))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        self.line.told(Bolted::renew(self, claims).await, "renew", claims.first().map(|claim| &claim.name))
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        self.line.told(Bolted::withdraw(self, claim).await, "withdraw", Some(&claim.name))
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        Engine::survey(&self.line, prefix).await
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        Engine::evict(&self.line, name, claim).await
    }

    async fn checkup(&self) -> Result<Checkup> {
        let Silence(silence) = self.silence;
        let by = if self.hold == Hold::Row { "a row, with a connection for each" } else { "a session" };
        let ends = format!("by {by}; a silent connection is ended after {silence:?}");
        let checkup = Engine::checkup(&self.line).await?.fact("held", ends);
        Ok(checkup.fact("longest lease", format!("{:?}", self.longest_lease())))
    }

    async fn read(&self, name: &Name) -> Result<Cell> {
        Engine::read(&self.line, name).await
    }

    async fn write(&self, name: &Name, write: &Write) -> Result<Written> {
        Engine::write(&self.line, name, write).await
    }
}
