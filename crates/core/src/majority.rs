//! How a client is connected to a majority of engines, and what its two sides must know of each other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::claim::ClaimId;
use crate::engine::{Connector, Engine, Side};
use crate::error::Result;
use crate::guarantees::{CrashFrees, Exclusion, Guarantees, TokenSurvives, WakeUp};
use crate::quorum::Quorum;

/// Connects a client to a majority of engines, each reached through a connector of its own.
///
/// A member that is down must not fail to connect: it is for its engine to reach it later. Otherwise the client could
/// not start while a minority is away.
#[derive(Debug)]
pub struct Majority {
    members: Vec<Arc<dyn Connector>>,
    parted: Arc<Parted>,
}

impl Majority {
    /// A majority of these.
    #[must_use]
    pub fn of(members: Vec<Arc<dyn Connector>>) -> Self {
        Self { members, parted: Arc::default() }
    }
}

#[async_trait]
impl Connector for Majority {
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let members =
            futures_util::future::try_join_all(self.members.iter().map(|member| member.connect(side))).await?;
        Ok(Arc::new(Quorum::sharing(members, Arc::clone(&self.parted))?))
    }
}

/// What a majority of these promises.
pub(crate) fn promised_by(members: &[Arc<dyn Engine>]) -> Guarantees {
    let members: Vec<Guarantees> = members.iter().map(|member| member.guarantees()).collect();
    let lease = members.iter().map(|member| match member.crash_frees {
        CrashFrees::AfterLease(slack) => slack,
        CrashFrees::Within(_) => Duration::ZERO,
    });
    let lease = lease.max().unwrap_or_default();
    Guarantees {
        engine: "quorum",
        exclusion: Exclusion::Quorum,
        token: TokenSurvives::Members,
        // Each line is; their majority is only nearly.
        fair: false,
        shared: members.iter().all(|member| member.shared),
        // With n permits and different majorities more than n claims can each have one.
        permits: false,
        priority: false,
        // A cell needs one order of all writes, which independent members do not have.
        cells: false,
        wake_up: members.iter().map(|member| member.wake_up).min().unwrap_or(WakeUp::Poll),
        crash_frees: CrashFrees::AfterLease(lease),
        outlives_process: members.iter().all(|member| member.outlives_process),
        min_ttl: members.iter().map(|member| member.min_ttl).max().unwrap_or_default().max(Duration::from_millis(200)),
    }
}

/// The claims that were granted, and those withdrawn a short while ago, by either side of a client.
///
/// A claim is answered as soon as a majority decides it, so it may be withdrawn while it is still on its way to the
/// other members. Whoever sent it there hears of the withdrawal here, and takes it out again when it has arrived. And a
/// majority that answers the same claim again may be another one, whose tokens differ: the first one's counts.
#[derive(Debug, Default)]
pub(crate) struct Parted {
    recent: Mutex<Recent>,
    tokens: Mutex<HashMap<ClaimId, u64>>,
}

#[derive(Debug, Default)]
struct Recent {
    ids: HashSet<ClaimId>,
    order: VecDeque<(Instant, ClaimId)>,
}

/// Longer than any request to a member is under way.
const REMEMBERED: Duration = Duration::from_secs(3);

impl Parted {
    /// The claim is being withdrawn.
    pub(crate) fn note(&self, id: ClaimId) {
        self.forget(&id);
        let now = Instant::now();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, old)) = recent.order.pop_front_if(|(until, _)| *until <= now) {
            recent.ids.remove(&old);
        }
        if recent.ids.insert(id) {
            recent.order.push_back((now + REMEMBERED, id));
        }
    }

    /// The claim was granted with this token.
    pub(crate) fn granted(&self, id: ClaimId, token: u64) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(id, token);
    }

    /// The token of a claim that was granted.
    pub(crate) fn token(&self, id: &ClaimId) -> Option<u64> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(id).copied()
    }

    /// Nobody will ask for the claim's token again.
    pub(crate) fn forget(&self, id: &ClaimId) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Whether the claim was withdrawn.
    pub(crate) fn has(&self, id: &ClaimId) -> bool {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).ids.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_withdrawal_is_remembered_for_a_while_and_no_longer() {
        let parted = Parted::default();
        let (first, second) = (ClaimId::random(), ClaimId::random());
        parted.granted(first, 7);
        assert_eq!(parted.token(&first), Some(7));
        parted.note(first);
        assert_eq!(parted.token(&first), None);
        assert!(parted.has(&first) && !parted.has(&second));
        tokio::time::sleep(REMEMBERED).await;
        parted.note(second);
        assert!(!parted.has(&first) && parted.has(&second));
    }
}
