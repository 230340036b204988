//! Renewing: one request for each lease, and a look at the claims that are bound to it.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Claim, Clock, Renewal, Result};

use crate::error::Fault;
use crate::leases::Covered;
use crate::ops::{point, put, txn, written_at};
use crate::proto::Request;
use crate::side::{PATIENCE, Side};
use crate::stored::Stored;

/// So many claims are looked at in one transaction: etcd takes 128 requests in one by default.
const LOOKS_AT_ONCE: usize = 100;
/// How often a claim that is to linger is tried again when it was written in the meantime.
const ATTEMPTS: u32 = 8;

/// A claim as it was seen, by a leader of this term.
type Look = (Option<Stored>, u64);

impl Side {
    /// Renews many leases at once.
    ///
    /// First the leases, then the look: an answer to the look is a majority's, so a lease that was kept alive by a
    /// leader of the same term was kept alive by the right one.
    pub(crate) async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(PATIENCE);
        let limit = (shortest / 3).clamp(Duration::from_millis(200), PATIENCE);
        self.learn(claims, limit).await?;
        let leases = self.keep_alive(claims, limit).await;
        let looks = self.look_at(claims, limit).await;
        let mut failure = leases.values().find_map(|covered| covered.as_ref().err().cloned());
        let mut renewals = Vec::with_capacity(claims.len());
        for (claim, look) in claims.iter().zip(looks) {
            let renewal = match look {
                Ok(look) => self.judge(claim, look, &leases).await,
                Err(fault) => Err(fault),
            };
            renewals.push(renewal.unwrap_or_else(|fault| {
                failure = Some(fault);
                Renewal::Unknown
            }));
        }
        match failure {
            // What was answered stays answered.
            Some(fault) if renewals.iter().all(|renewal| *renewal == Renewal::Unknown) => Err(self.explain(fault)),
            _ => Ok(renewals),
        }
    }

    /// Finds out which lease a claim is bound to when that is not known here.
    async fn learn(&self, claims: &[Claim], limit: Duration) -> Result<()> {
        let unknown: Vec<Claim> = claims.iter().filter(|claim| self.kept.spot(&claim.id).is_none()).cloned().collect();
        for (claim, look) in unknown.iter().zip(self.look_at(&unknown, limit).await) {
            if let (Some(stored), _) = look.map_err(|fault| self.explain(fault))?
                && !stored.lingers
            {
                self.kept.enter(claim, stored.lease);
            }
        }
        Ok(())
    }

    /// Keeps every lease alive that one of the claims is bound to.
    async fn keep_alive(&self, claims: &[Claim], limit: Duration) -> HashMap<i64, Result<Covered, Fault>> {
        let now = Clock::Boot.now();
        let mut longest: HashMap<i64, Duration> = HashMap::new();
        for claim in claims.iter().filter(|claim| !claim.lingers) {
            if let Some(spot) = self.kept.spot(&claim.id) {
                let ttl = longest.entry(spot.lease).or_default();
                *ttl = claim.ttl.max(*ttl);
            }
        }
        let covering = longest.into_iter().map(async |(lease, ttl)| (lease, self.cover(lease, now + ttl, limit).await));
        join_all(covering).await.into_iter().collect()
    }

    /// What is there of each claim.
    async fn look_at(&self, claims: &[Claim], limit: Duration) -> Vec<Result<Look, Fault>> {
        let some = claims.chunks(LOOKS_AT_ONCE).map(async |some| {
            let keys = some.iter().map(|claim| Request::Range(point(self.key(claim))));
            let mut outcome = self.look(&txn(Vec::new(), keys.collect(), Vec::new()), limit).await?;
            let mut looks = Vec::with_capacity(some.len());
            for claim in some {
                let line = self.keys.line(&claim.name);
                let stored = outcome.key()?.and_then(|kv| Stored::read(&line, kv));
                looks.push((stored.filter(|stored| stored.id == Some(claim.id)), outcome.term));
            }
            Ok(looks)
        });
        let answers: Vec<Result<Vec<Look>, Fault>> = join_all(some).await;
        let spread = answers.into_iter().zip(claims.chunks(LOOKS_AT_ONCE)).flat_map(|(answer, some)| match answer {
            Ok(looks) => looks.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(fault) => some.iter().map(|_| Err(fault.clone())).collect(),
        });
        spread.collect()
    }

    /// What becomes of one claim.
    async fn judge(
        &self,
        claim: &Claim,
        (stored, term): Look,
        leases: &HashMap<i64, Result<Covered, Fault>>,
    ) -> Result<Renewal, Fault> {
        let spot = self.kept.spot(&claim.id);
        let Some(stored) = stored.filter(|stored| !stored.evicted) else { return Ok(Renewal::Gone) };
        if spot.as_ref().and_then(|spot| spot.made).is_some_and(|made| made != stored.made) {
            // Another key of the same claim: an old request that arrived late. The one that was granted is gone.
            return Ok(Renewal::Gone);
        }
        if claim.lingers {
            return self.linger(claim, stored).await;
        }
        if stored.lingers {
            // A renewal that was under way when the claim began to linger changes nothing.
            return Ok(Renewal::Renewed);
        }
        match leases.get(&stored.lease) {
            Some(Ok(Covered::By(promised))) if *promised == term => {
                self.kept.renewed(claim);
                Ok(Renewal::Renewed)
            }
            Some(Ok(Covered::By(_))) => {
                self.kept.doubt(stored.lease);
                Ok(Renewal::Unknown)
            }
            // Its key goes with it, at once or in a moment.
            Some(Ok(Covered::Gone)) => Ok(Renewal::Gone),
            Some(Err(fault)) => Err(fault.clone()),
            None => {
                self.kept.enter(claim, stored.lease);
                Ok(Renewal::Unknown)
            }
        }
    }

    /// Gives a claim a last lease of its own.
    async fn linger(&self, claim: &Claim, mut stored: Stored) -> Result<Renewal, Fault> {
        let line = self.keys.line(&claim.name);
        let lease = self.own_lease(claim).await?;
        for _ in 0..ATTEMPTS {
            let last = Stored { lingers: true, ..stored.clone() };
            let request = txn(
                vec![written_at(stored.key.clone(), stored.written)],
                vec![put(stored.key.clone(), last.value(), lease)],
                vec![Request::Range(point(stored.key.clone()))],
            );
            let mut outcome = self.change(&request, PATIENCE).await?;
            if outcome.succeeded {
                self.kept.renewed(claim);
                return Ok(Renewal::Renewed);
            }
            match outcome.key()?.and_then(|kv| Stored::read(&line, kv)).filter(|stored| !stored.evicted) {
                Some(changed) => stored = changed,
                None => return Ok(Renewal::Gone),
            }
        }
        Ok(Renewal::Unknown)
    }
}
