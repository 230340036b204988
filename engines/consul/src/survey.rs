//! Lines as people see them, and what an operator does to them.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse_core::line::{granted, kind};
use lockhouse_core::{Error, Kind, Line, Name, Place, PublicId, Result};

use crate::api::{Kv, LOCK_FLAGS, OPERATIONS, Op, Outcome};
use crate::keys::Part;
use crate::side::{PATIENCE, Side};
use crate::store::Look;
use crate::stored::{Evicted, LockKey, Stored};

/// How often an eviction is tried again when the line changed under it.
const ATTEMPTS: u32 = 16;

impl Side {
    /// Every line under a prefix.
    pub(crate) async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let beginning = self.store.keys.beginning(prefix);
        let kvs = self.store.read(&[&beginning], PATIENCE).await.map_err(|fault| self.explain(fault))?;
        let mut lines: BTreeMap<Name, Vec<Kv>> = BTreeMap::new();
        for kv in kvs {
            let Some((name, part)) = self.store.keys.parse(&kv.key) else { continue };
            // A key that nobody has acquired holds nothing.
            if name.as_str().starts_with(prefix) && (part == Part::Claim || kv.session.is_some()) {
                lines.entry(name).or_default().push(kv);
            }
        }
        Ok(lines.into_iter().filter_map(|(name, kvs)| line(&name, &self.seen(&name, &kvs))).collect())
    }

    /// An operator ends a claim.
    ///
    /// A holder is marked, learns it by its next renewal and lets go. A waiter is marked so that it counts no more, as
    /// long as it is one. Another program's key is deleted.
    pub(crate) async fn evict(&self, name: &Name, public: &PublicId) -> Result<bool> {
        let lock = self.store.keys.lock(name);
        for _ in 0..ATTEMPTS {
            let look = self.line(name, PATIENCE).await?;
            let ops = match look.claims.iter().find(|claim| claim.id == *public && claim.counts()) {
                Some(claim) => mark(&look, claim, &lock),
                None => match stranger(&look).filter(|held| stranger_id(held) == Some(*public)) {
                    Some(held) => vec![Op::delete_at(&lock, held.written)],
                    None => return Ok(false),
                },
            };
            let changed = self.store.change(&ops, PATIENCE).await.map_err(|fault| self.explain(fault))?;
            if let Outcome::Done(_) = changed {
                return Ok(true);
            }
        }
        Err(Error::new(Kind::Unreachable, "the line kept changing").help("try again"))
    }
}

/// What marks a claim as evicted: for a waiter only as long as it has not been let in.
fn mark(look: &Look, claim: &Stored, lock: &str) -> Vec<Op> {
    let waits = !holds(look, claim);
    let ahead = look.ahead(claim.made);
    // A mutex's claim is let in by acquiring the lock's own key. Others are as long as somebody ahead has left.
    let mut ops: Vec<Op> = match &look.lock {
        _ if !waits => Vec::new(),
        Some(held) if claim.capacity == kind::MUTEX => vec![Op::unchanged(lock, held.written)],
        None if claim.capacity == kind::MUTEX => vec![Op::absent(lock)],
        _ => ahead.iter().map(|other| Op::unchanged(&other.key, other.written)).collect(),
    };
    // Also a waiter far behind: it is out of the line when it learns of it.
    let evicted = if waits && ops.len() < OPERATIONS { Evicted::Waiter } else { Evicted::Holder };
    ops.truncate(OPERATIONS - 1);
    let marked = Stored { evicted, ..claim.clone() };
    let write = Op::write(&claim.key, claim.written, marked.value());
    ops.push(if claim.sole { write.flagged(LOCK_FLAGS) } else { write });
    ops
}

fn holds(look: &Look, claim: &Stored) -> bool {
    if claim.capacity == kind::MUTEX {
        return look.lock.as_ref().is_some_and(|lock| lock.is_of(&claim.segment));
    }
    let claims: Vec<&Stored> = look.claims.iter().filter(|claim| claim.counts()).collect();
    let holders = granted(claim.capacity, claims.iter().map(|claim| claim.weight));
    claims[..holders].iter().any(|holder| holder.segment == claim.segment)
}

fn line(name: &Name, look: &Look) -> Option<Line> {
    let claims = look.claims.iter().filter(|claim| claim.counts());
    let ours = claims.clone().map(|claim| {
        let token = match &look.lock {
            Some(lock) if claim.capacity == kind::MUTEX && !claim.sole => lock.written,
            _ => claim.made,
        };
        Place {
            id: claim.id,
            owner: claim.owner.clone(),
            weight: claim.weight,
            priority: 0,
            token: holds(look, claim).then_some(token),
            // Consul does not say when a key was written, or how long a session lives.
            since: Duration::ZERO,
            lease_left: Duration::ZERO,
            note: claim.note.clone(),
            evicted: claim.evicted != Evicted::No,
        }
    });
    let stranger = stranger(look).and_then(|held| {
        Some(Place {
            id: stranger_id(held)?,
            owner: "another program".into(),
            weight: kind::MUTEX,
            priority: 0,
            token: Some(held.written),
            since: Duration::ZERO,
            lease_left: Duration::ZERO,
            note: None,
            evicted: false,
        })
    });
    let places: Vec<Place> = stranger.into_iter().chain(ours).collect();
    let capacity = claims.clone().next().map_or(kind::MUTEX, |claim| claim.capacity);
    (!places.is_empty()).then(|| Line { name: name.clone(), capacity, places })
}

/// The lock's own key when somebody has it who is not in line.
fn stranger(look: &Look) -> Option<&LockKey> {
    let in_line = |held: &&LockKey| look.claims.iter().any(|claim| held.is_of(&claim.segment));
    look.lock.as_ref().filter(|held| held.session.is_some() && !in_line(held))
}

/// What people call another program's hold: the first digits of its session's id.
fn stranger_id(held: &LockKey) -> Option<PublicId> {
    let digits: String = held.session.as_deref()?.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    digits.parse().ok()
}
