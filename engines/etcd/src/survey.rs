//! Lines as people see them, and what an operator does to them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::line::granted;
use lockhouse_core::{Error, Kind, Line, Name, Place, PublicId, Result};

use crate::link::TIME_TO_LIVE;
use crate::ops::{beginning, delete, made_at, put, rewrite, txn, written_at};
use crate::proto::{LeaseTimeToLiveRequest, LeaseTimeToLiveResponse};
use crate::side::{PATIENCE, Side};
use crate::stored::Stored;

/// The leases of so many are asked for at once; for the others nothing is said about them.
const LEASES: usize = 200;
/// So many comparisons fit into one transaction with room to spare.
const COMPARISONS: usize = 100;
/// How often an eviction is tried again when the line changed under it.
const ATTEMPTS: u32 = 16;

impl Side {
    /// Every line under a prefix.
    pub(crate) async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let mut lines: BTreeMap<Name, Vec<Stored>> = BTreeMap::new();
        for kv in self.range(&beginning(self.keys.beginning(prefix)), PATIENCE).await?.kvs {
            let Some((name, _)) = self.keys.parse(&kv.key) else { continue };
            let stored = Stored::read(&self.keys.line(&name), kv).filter(|_| name.as_str().starts_with(prefix));
            // A key without a lease that we did not write may be anybody's data.
            let stored = stored.filter(|stored| stored.id.is_some() || stored.lease != 0);
            if let Some(stored) = stored {
                lines.entry(name).or_default().push(stored);
            }
        }
        let leases = self.leases_left(lines.values().flatten().map(|stored| stored.lease)).await;
        Ok(lines.into_iter().filter_map(|(name, claims)| line(name, claims, &leases)).collect())
    }

    /// How long each of these leases lives without being heard of.
    async fn leases_left(&self, leases: impl Iterator<Item = i64>) -> HashMap<i64, Duration> {
        let leases: HashSet<i64> = leases.filter(|lease| *lease != 0).collect();
        let left = leases.into_iter().take(LEASES).map(async |id| {
            let request = LeaseTimeToLiveRequest { id, keys: false };
            let answer: Result<LeaseTimeToLiveResponse> = self.ask(TIME_TO_LIVE, &request, PATIENCE).await;
            let seconds = answer.ok().and_then(|answer| u64::try_from(answer.ttl).ok());
            (id, Duration::from_secs(seconds.unwrap_or(0)))
        });
        join_all(left).await.into_iter().collect()
    }

    /// An operator ends a claim.
    ///
    /// A holder is marked, learns it by its next renewal and lets go. A waiter is deleted, as long as it is one, and
    /// what tells it so lives as long as its lease. Another program's key is deleted.
    pub(crate) async fn evict(&self, name: &Name, public: &PublicId) -> Result<bool> {
        let line = self.keys.line(name);
        for _ in 0..ATTEMPTS {
            let all = self.range(&beginning(line.clone()), PATIENCE).await?.kvs;
            let mut claims: Vec<Stored> = all.into_iter().filter_map(|kv| Stored::read(&line, kv)).collect();
            in_order(&mut claims);
            let Some(at) = claims.iter().position(|stored| public_id(stored) == Some(*public)) else {
                return Ok(false);
            };
            let (stored, ahead) = (&claims[at], &claims[..at]);
            let mut compare = vec![written_at(stored.key.clone(), stored.written)];
            let waits = holders(&claims) <= at;
            // As long as all of these are there it has not been let in.
            let still_waits = ahead.iter().take(COMPARISONS).map(|ahead| made_at(ahead.key.clone(), ahead.made));
            let then = match stored.id {
                None => vec![delete(stored.key.clone())],
                Some(id) if waits && ahead.len() <= COMPARISONS => {
                    compare.extend(still_waits);
                    vec![delete(stored.key.clone()), put(self.keys.evicted(&id), Vec::new(), stored.lease)]
                }
                // Also a waiter far behind: it is out of the line when it learns of it.
                Some(_) => {
                    let marked = Stored { evicted: true, ..stored.clone() };
                    vec![rewrite(stored.key.clone(), marked.value())]
                }
            };
            let changed = self.change(&txn(compare, then, Vec::new()), PATIENCE).await;
            if changed.map_err(|fault| self.explain(fault))?.succeeded {
                return Ok(true);
            }
        }
        Err(Error::new(Kind::Unreachable, "the line kept changing").help("try again"))
    }
}

fn line(name: Name, mut claims: Vec<Stored>, leases: &HashMap<i64, Duration>) -> Option<Line> {
    in_order(&mut claims);
    let capacity = claims.first()?.capacity;
    let holders = holders(&claims);
    let places = claims.iter().enumerate().filter_map(|(at, stored)| {
        Some(Place {
            id: public_id(stored)?,
            owner: stored.owner.clone(),
            weight: stored.weight,
            priority: 0,
            token: (at < holders).then_some(stored.made.unsigned_abs()),
            // etcd does not say when a key was written.
            since: Duration::ZERO,
            lease_left: leases.get(&stored.lease).copied().unwrap_or_default(),
            note: stored.note.clone(),
            evicted: stored.evicted,
        })
    });
    Some(Line { name, capacity, places: places.collect() })
}

fn in_order(claims: &mut [Stored]) {
    claims.sort_by_key(|stored| stored.made);
}

/// How many of a line hold the lock.
fn holders(claims: &[Stored]) -> usize {
    let capacity = claims.first().map_or(0, |stored| stored.capacity);
    granted(capacity, claims.iter().map(|stored| stored.weight))
}

/// What people call a claim. Another program's is called after its key.
fn public_id(stored: &Stored) -> Option<PublicId> {
    if let Some(id) = stored.id {
        return Some(id.public());
    }
    // FNV-1a: the same for everybody who looks, and short enough.
    let hash = stored
        .key
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:012x}", hash >> 16).parse().ok()
}
