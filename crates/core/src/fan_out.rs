//! Asking many engines at once, each with a time limit, and finishing in the background what nobody waits for any more.

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::claim::{Claim, ClaimId, PublicId};
use crate::engine::{Engine, Renewal, Standing, Withdrawal};
use crate::error::{Error, Kind, Result};
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
    /// Claims that were refused: a member that grants one late is told to forget it.
    refused: Arc<Mutex<HashSet<ClaimId>>>,
}

/// The members' answers as they come, each with the member's number; one for every member that was asked.
pub(crate) struct Answers<T> {
    channel: mpsc::UnboundedReceiver<(usize, Result<T>)>,
}

impl<T> Answers<T> {
    pub(crate) async fn next(&mut self) -> Option<(usize, Result<T>)> {
        self.channel.recv().await
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
    pub(crate) fn new(members: Vec<Arc<dyn Engine>>) -> Self {
        Self { members, under_way: Mutex::default(), refused: Arc::default() }
    }

    pub(crate) fn members(&self) -> &[Arc<dyn Engine>] {
        &self.members
    }

    fn everyone(&self) -> Vec<usize> {
        (0..self.members.len()).collect()
    }

    /// Sends a request to some of the members.
    fn ask<T, F>(&self, members: &[usize], limit: Duration, request: impl Fn(Arc<dyn Engine>) -> F) -> Answers<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (sender, channel) = mpsc::unbounded_channel();
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        while under_way.try_join_next().is_some() {}
        for &member in members {
            let answer = request(Arc::clone(&self.members[member]));
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

    pub(crate) fn claim(&self, claim: &Claim, limit: Duration) -> Answers<Standing> {
        self.claim_at(&self.everyone(), claim, limit)
    }

    pub(crate) fn claim_at(&self, members: &[usize], claim: &Claim, limit: Duration) -> Answers<Standing> {
        self.ask(members, limit, |member| {
            let (claim, refused) = (claim.clone(), Arc::clone(&self.refused));
            async move {
                let standing = member.claim(&claim).await;
                let late = refused.lock().unwrap_or_else(PoisonError::into_inner).contains(&claim.id);
                if late && !matches!(standing, Ok(Standing::Refused)) {
                    member.withdraw(&claim).await?;
                }
                standing
            }
        })
    }

    pub(crate) fn withdraw_at(&self, members: &[usize], claim: &Claim, limit: Duration) -> Answers<Withdrawal> {
        self.ask(members, limit, |member| {
            let claim = claim.clone();
            async move { member.withdraw(&claim).await }
        })
    }

    /// Takes back a claim that is refused: nothing of it is left, also not with members that answer late.
    pub(crate) async fn refuse(&self, claim: &Claim, limit: Duration, grace: Duration) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.id);
        let answers = self.withdraw_at(&self.everyone(), claim, limit);
        answers.gather(self.members.len() / 2 + 1, grace).await;
        let refused = Arc::clone(&self.refused);
        let id = claim.id;
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.spawn(async move {
            // By then every request that was under way has been answered or given up.
            tokio::time::sleep(limit * 2).await;
            refused.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        });
    }

    pub(crate) fn renew(&self, claims: &[Claim], limit: Duration) -> Answers<Vec<Renewal>> {
        let claims: Arc<[Claim]> = claims.into();
        self.ask(&self.everyone(), limit, |member| {
            let claims = Arc::clone(&claims);
            async move { member.renew(&claims).await }
        })
    }

    pub(crate) fn survey(&self, prefix: &str, limit: Duration) -> Answers<Vec<Line>> {
        self.ask(&self.everyone(), limit, |member| {
            let prefix = prefix.to_owned();
            async move { member.survey(&prefix).await }
        })
    }

    pub(crate) fn evict(&self, name: &Name, claim: &PublicId, limit: Duration) -> Answers<bool> {
        self.ask(&self.everyone(), limit, |member| {
            let (name, claim) = (name.clone(), *claim);
            async move { member.evict(&name, &claim).await }
        })
    }
}
