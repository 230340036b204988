//! Renewing: the session lives, and the claims are there.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use lockhouse_core::{Claim, Clock, Renewal, Result};

use crate::api::{Kv, OPERATIONS};
use crate::error::Fault;
use crate::kept::Spot;
use crate::side::{PATIENCE, Side};
use crate::stored::{Evicted, LockKey, Stored};

/// So many claims are looked at in one transaction: two keys each.
const CLAIMS_AT_ONCE: usize = OPERATIONS / 2;
/// So many transactions are under way at once.
const LOOKS_AT_ONCE: usize = 8;

impl Side {
    /// Renews many leases at once. The session is one request for all of them, and none when it was renewed a moment
    /// ago; that the claims are there is read as a majority knows it.
    pub(crate) async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(PATIENCE);
        let longest = claims.iter().map(|claim| claim.ttl).max().unwrap_or(PATIENCE);
        let limit = (shortest / 3).clamp(Duration::from_millis(200), PATIENCE);
        let until = Clock::Boot.now() + longest.min(self.session.terms().longest_lease());
        let session = self.session.current(limit).await.map_err(|fault| self.explain(fault))?;
        let looks: Vec<_> = claims.chunks(CLAIMS_AT_ONCE).map(|some| self.look_at(some, limit)).collect();
        let looks = stream::iter(looks).buffered(LOOKS_AT_ONCE).collect::<Vec<_>>();
        let (covered, looks) = tokio::join!(self.session.cover(&self.store.link, &session, until, limit), looks);
        let (mut renewals, mut failure) = (Vec::with_capacity(claims.len()), covered.as_ref().err().cloned());
        let covered = covered.is_ok_and(|covered| covered);
        for (some, look) in claims.chunks(CLAIMS_AT_ONCE).zip(looks) {
            match look {
                Ok(kvs) => renewals.extend(some.iter().map(|claim| self.judge(claim, &session, &kvs, covered))),
                Err(fault) => {
                    failure = Some(fault);
                    renewals.extend(some.iter().map(|_| Renewal::Unknown));
                }
            }
        }
        match failure {
            // What was answered stays answered.
            Some(fault) if renewals.iter().all(|renewal| *renewal == Renewal::Unknown) => Err(self.explain(fault)),
            _ => Ok(renewals),
        }
    }

    /// What is there of these claims.
    async fn look_at(&self, claims: &[Claim], limit: Duration) -> Result<HashMap<String, Kv>, Fault> {
        let spots = claims.iter().filter_map(|claim| self.kept.spot(&claim.id));
        let keys: Vec<String> = spots
            .flat_map(|spot| {
                let lock = spot.held.map(|_| self.store.keys.lock(&spot.name));
                std::iter::once(self.store.keys.claim(&spot.name, &spot.segment)).chain(lock)
            })
            .collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let kvs = self.store.read(&keys, limit).await?;
        Ok(kvs.into_iter().map(|kv| (kv.key.clone(), kv)).collect())
    }

    /// What becomes of one claim.
    fn judge(&self, claim: &Claim, session: &str, kvs: &HashMap<String, Kv>, covered: bool) -> Renewal {
        let spot = self.kept.spot(&claim.id).filter(|spot| &*spot.session == session);
        let Some(spot) = spot else { return Renewal::Gone };
        let line = self.store.keys.line(&spot.name);
        let own = if spot.placed.is_some_and(|placed| placed.sole) {
            kvs.get(&self.store.keys.lock(&spot.name)).and_then(Stored::in_lock)
        } else {
            kvs.get(&format!("{line}{}", spot.segment)).and_then(|kv| Stored::read(&line, kv))
        };
        match own {
            // A request to make it may still be on its way.
            None if spot.placed.is_none() => Renewal::Unknown,
            // What is left of it, if anything, goes with its withdrawal.
            None => Renewal::Gone,
            // Whoever changed it was an operator, or we ourselves.
            Some(own) if own.evicted != Evicted::No || !self.still_holds(&spot, kvs) => Renewal::Gone,
            Some(_) if covered => {
                self.kept.renewed(claim);
                Renewal::Renewed
            }
            Some(_) => Renewal::Unknown,
        }
    }

    /// Whether a claim that acquired the lock's own key still has it.
    fn still_holds(&self, spot: &Spot, kvs: &HashMap<String, Kv>) -> bool {
        let lock = || kvs.get(&self.store.keys.lock(&spot.name)).map(LockKey::read);
        spot.held.is_none() || lock().is_some_and(|lock| lock.is_of(&spot.segment))
    }
}
