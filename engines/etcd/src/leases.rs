//! Leases: one for all claims of a client that have the same TTL.
//!
//! A lease is kept alive with each claim and each renewal, when it would not outlive it anyway. Nobody else keeps it
//! alive: when no claim is left it ends by itself. Its length is the TTL in whole seconds, rounded up.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Claim, Clock, Moment};

use crate::error::Fault;
use crate::keys;
use crate::link::{DELETE, GRANT, KEEP_ALIVE, REVOKE, TIME_TO_LIVE};
use crate::ops::header;
use crate::proto::{
    DeleteRequest, DeleteResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, Nothing,
};
use crate::side::{PATIENCE, Side, patience_for};

/// Whether a lease lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covered {
    /// Long enough, as the leader of this term says.
    ///
    /// A leader that was deposed while it stood still does not know that its successor counts the lease from another
    /// moment. So the promise holds only beside an answer of the same term to something that a majority had a part in
    /// and that was sent no earlier than the moment from which the lease is counted.
    By(u64),
    /// It is over.
    Gone,
}

impl Side {
    /// The lease for a new claim.
    pub(crate) async fn lease_for(&self, claim: &Claim) -> Result<i64, Fault> {
        if claim.lingers {
            return self.own_lease(claim).await;
        }
        let seconds = whole_seconds(claim.ttl);
        if let Some(id) = self.kept.current(seconds) {
            return Ok(id);
        }
        let _one_at_a_time = self.granting.lock().await;
        if let Some(id) = self.kept.current(seconds) {
            return Ok(id);
        }
        let sent = Clock::Boot.now();
        let (id, length, term) = self.grant(seconds, patience_for(claim.ttl)).await?;
        self.kept.begin(seconds, id, sent, length, term);
        Ok(id)
    }

    /// A lease that nobody else shares, for a claim that nobody will renew.
    pub(crate) async fn own_lease(&self, claim: &Claim) -> Result<i64, Fault> {
        let sent = Clock::Boot.now();
        let (id, length, term) = self.grant(whole_seconds(claim.ttl), patience_for(claim.ttl)).await?;
        self.kept.confirm(id, sent, length, term);
        Ok(id)
    }

    /// The shortest lease that the cluster gives: a shorter one is made as long. For `lockhouse doctor`.
    pub(crate) async fn shortest_lease(&self) -> Result<Duration, Fault> {
        let (id, shortest, _) = self.grant(1, PATIENCE).await?;
        // If that fails, it ends by itself in a moment.
        let _: Result<Nothing, Fault> = self.link.ask(REVOKE, &LeaseRevokeRequest { id }, PATIENCE).await;
        Ok(shortest)
    }

    async fn grant(&self, seconds: i64, limit: Duration) -> Result<(i64, Duration, u64), Fault> {
        let granted: LeaseGrantResponse = self.link.ask(GRANT, &LeaseGrantRequest { ttl: seconds }, limit).await?;
        Ok((granted.id, length(granted.ttl)?, header(granted.header)?.raft_term))
    }

    /// Makes sure that a lease lives until then: by one request for all who ask at the same time.
    pub(crate) async fn cover(&self, lease: i64, until: Moment, limit: Duration) -> Result<Covered, Fault> {
        if let Some(term) = self.kept.covers(lease, until) {
            return Ok(Covered::By(term));
        }
        let flight = self.flight(lease);
        let _one_at_a_time = flight.lock().await;
        if let Some(term) = self.kept.covers(lease, until) {
            return Ok(Covered::By(term));
        }
        let sent = Clock::Boot.now();
        let request = LeaseKeepAliveRequest { id: lease };
        let alive: LeaseKeepAliveResponse = self.link.ask(KEEP_ALIVE, &request, limit).await?;
        if alive.ttl <= 0 {
            self.kept.end(lease);
            self.tending().remove(&lease);
            return Ok(Covered::Gone);
        }
        let term = header(alive.header)?.raft_term;
        self.kept.confirm(lease, sent, length(alive.ttl)?, term);
        if self.kept.is_to_be_swept(lease)
            && let Err(fault) = self.sweep(lease, limit).await
        {
            tracing::debug!(?fault, "the keys of a lease could not be looked through; next time");
        }
        Ok(Covered::By(term))
    }

    /// Takes out what is bound to a lease and not wanted any more.
    ///
    /// A request that was given up can arrive late, after the claim's withdrawal, and a withdrawal can fail for good.
    /// The claim would then stay as long as others keep the lease alive.
    async fn sweep(&self, lease: i64, limit: Duration) -> Result<(), Fault> {
        let request = LeaseTimeToLiveRequest { id: lease, keys: true };
        let bound: LeaseTimeToLiveResponse = self.link.ask(TIME_TO_LIVE, &request, limit).await?;
        // Looked at afterwards: who is there and not known here was known once, and is not wanted now.
        let ours = bound.keys.iter().filter_map(|key| {
            let (name, segment) = self.keys.parse(key)?;
            Some((name, keys::id(segment.as_bytes())?))
        });
        let deletions = self.kept.unwanted(ours.collect()).into_iter().map(async |(name, seat)| {
            let request = DeleteRequest { key: self.keys.seat(&name, &seat) };
            let deleted: Result<DeleteResponse, Fault> = self.link.ask(DELETE, &request, limit).await;
            deleted.map(drop)
        });
        join_all(deletions).await.into_iter().collect()
    }

    fn flight(&self, lease: i64) -> Arc<tokio::sync::Mutex<()>> {
        let mut tending = self.tending();
        if tending.len() > 64 {
            // Those that nobody waits for any more.
            tending.retain(|_, flight| Arc::strong_count(flight) > 1);
        }
        Arc::clone(tending.entry(lease).or_default())
    }

    fn tending(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<i64, Arc<tokio::sync::Mutex<()>>>> {
        self.tending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A TTL in etcd's unit.
fn whole_seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn length(seconds: i64) -> Result<Duration, Fault> {
    let seconds = u64::try_from(seconds).map_err(|_| Fault::Answer("a lease of negative length"))?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_never_shorter_than_the_ttl() {
        for (millis, seconds) in [(2000, 2), (2001, 3), (2999, 3), (3000, 3)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
