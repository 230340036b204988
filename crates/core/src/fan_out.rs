//! Asking many engines at once, each with a time limit, and finishing in the background what nobody waits for any more.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::checkup::Checkup;
use crate::claim::{Claim, Patience, PublicId};
use crate::engine::{Engine, Renewal, Standing, Withdrawal};
use crate::error::{Error, Kind, Result};
use crate::majority::Parted;
use crate::name::Name;
use crate::survey::Line;

/// The members, and the requests to them that are under way.
///
/// A request is a task of its own: when its caller has heard enough, or is gone, it is finished all the same, so that
/// the slow members hear of it too. Each is bounded by its limit.
#[derive(Debug)]
pub(crate) struct FanOut {
    members: Vec<Arc<dyn Engine>>,
    under_way: Mutex<JoinSet<()>>,
    /// A member that answers a claim which was withdrawn by then is told to forget it.
    parted: Arc<Parted>,
}

/// The members' answers as they come, each with the member's number; one for every member that was asked.
pub(crate) struct Answers<T> {
    channel: mpsc::UnboundedReceiver<(usize, Result<T>)>,
}

impl<T> Answers<T> {
    pub(crate) async fn next(&mut self) -> Option<(usize, Result<T>)> {
        self.channel.recv().await
    }

    /// What each member says, in the order of the members.
    pub(crate) async fn all(mut self) -> Vec<(usize, Result<T>)> {
        let mut all = Vec::new();
        while let Some(answer) = self.next().await {
            all.push(answer);
        }
        all.sort_by_key(|(member, _)| *member);
        all
    }

    /// What the members say, once enough have and the others have had a little more time; `None` when too few do.
    pub(crate) async fn gather(mut self, enough: usize, grace: Duration) -> Option<Vec<T>> {
        let mut gathered = Vec::new();
        while gathered.len() < enough {
            gathered.extend(self.next().await?.1);
        }
        let until = Instant::now() + grace;
        while let Ok(Some((_, answer))) = tokio::time::timeout_at(until, self.next()).await {
            gathered.extend(answer);
        }
        Some(gathered)
    }
}

impl FanOut {
    pub(crate) fn new(members: Vec<Arc<dyn Engine>>, parted: Arc<Parted>) -> Self {
        Self { members, under_way: Mutex::default(), parted }
    }

    pub(crate) fn members(&self) -> &[Arc<dyn Engine>] {
        &self.members
    }

    /// What is known of the claims that were granted and withdrawn.
    pub(crate) fn parted(&self) -> &Parted {
        &self.parted
    }

    fn everyone(&self) -> Vec<usize> {
        (0..self.members.len()).collect()
    }

    /// Sends a request to some of the members.
    fn ask<T, F>(&self, members: &[usize], limit: Duration, request: impl Fn(usize, Arc<dyn Engine>) -> F) -> Answers<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (sender, channel) = mpsc::unbounded_channel();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        while under_way.try_join_next().is_some() {}
        for &member in members {
            let answer = request(member, Arc::clone(&self.members[member]));
            let sender = sender.clone();
            under_way.spawn(async move {
                let answer = tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
                    Err(Error::new(Kind::TimedOut, format!("member {member} did not answer within {limit:?}"))
                        .unknown())
                });
                // Nobody listens any more when the answer was not needed.
                let _ = sender.send((member, answer));
            });
        }
        Answers { channel }
    }

    /// Claims with every member; only the first keeps a place for who waits.
    pub(crate) fn claim(&self, claim: &Claim, first: usize, limit: Duration) -> Answers<Standing> {
        self.claim_with(&self.everyone(), claim, Some(first), limit)
    }

    /// Claims with the one that keeps the place.
    pub(crate) fn claim_first(&self, claim: &Claim, first: usize, limit: Duration) -> Answers<Standing> {
        self.claim_with(&[first], claim, Some(first), limit)
    }

    /// Claims again with members that have granted.
    pub(crate) fn claim_at(&self, members: &[usize], claim: &Claim, limit: Duration) -> Answers<Standing> {
        self.claim_with(members, claim, None, limit)
    }

    fn claim_with(&self, members: &[usize], claim: &Claim, first: Option<usize>, limit: Duration) -> Answers<Standing> {
        self.ask(members, limit, |at, member| {
            let patience = if first == Some(at) { claim.patience } else { Patience::None };
            let (claim, parted) = (Claim { patience, ..claim.clone() }, Arc::clone(&self.parted));
            async move {
                let standing = member.claim(&claim).await;
                if parted.has(&claim.id) && !matches!(standing, Ok(Standing::Refused)) {
                    member.withdraw(&claim).await?;
                }
                standing
            }
        })
    }

    /// Withdraws from every member, also from those where the claim has yet to arrive.
    pub(crate) fn withdraw(&self, claim: &Claim, limit: Duration) -> Answers<Withdrawal> {
        self.parted.note(claim.id);
        self.ask(&self.everyone(), limit, |_, member| {
            let claim = claim.clone();
            async move { member.withdraw(&claim).await }
        })
    }

    /// Takes back a claim that is refused: nothing of it is left.
    pub(crate) async fn refuse(&self, claim: &Claim, limit: Duration, grace: Duration) {
        self.withdraw(claim, limit).gather(self.members.len() / 2 + 1, grace).await;
    }

    pub(crate) fn renew(&self, claims: &[Claim], limit: Duration) -> Answers<Vec<Renewal>> {
        claims.iter().filter(|claim| claim.lingers).for_each(|claim| self.parted.forget(&claim.id));
        let claims: Arc<[Claim]> = claims.into();
        self.ask(&self.everyone(), limit, |_, member| {
            let claims = Arc::clone(&claims);
            async move { member.renew(&claims).await }
        })
    }

    pub(crate) fn survey(&self, prefix: &str, limit: Duration) -> Answers<Vec<Line>> {
        self.ask(&self.everyone(), limit, |_, member| {
            let prefix = prefix.to_owned();
            async move { member.survey(&prefix).await }
        })
    }

    pub(crate) fn checkup(&self, limit: Duration) -> Answers<Checkup> {
        self.ask(&self.everyone(), limit, |_, member| async move { member.checkup().await })
    }

    pub(crate) fn evict(&self, name: &Name, claim: &PublicId, limit: Duration) -> Answers<bool> {
        self.ask(&self.everyone(), limit, |_, member| {
            let (name, claim) = (name.clone(), *claim);
            async move { member.evict(&name, &claim).await }
        })
    }
}
