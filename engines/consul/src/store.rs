//! What is asked of Consul's keys: transactions, and looks at a line.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use lockhouse_core::Name;

use crate::api::{Kv, Op, Outcome, Seen, json};
use crate::error::Fault;
use crate::keys::Keys;
use crate::link::{Link, Repeat};
use crate::stored::{LockKey, Stored};

/// How often a claim is tried to be taken out when it was written in the meantime.
const ATTEMPTS: u32 = 8;

/// Consul's keys, as one side reaches them.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) link: Arc<Link>,
    pub(crate) keys: Keys,
}

/// A line as it was at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    /// The lock's own key.
    pub(crate) lock: Option<LockKey>,
    /// The claims in order.
    pub(crate) claims: Vec<Stored>,
    /// The keys that claims have left behind whose sessions are over, as they were last written.
    pub(crate) left_behind: Vec<Seen>,
}

impl Look {
    fn new(lock: &str, line: &str, kvs: &[Kv]) -> Self {
        let lock = kvs.iter().find(|kv| kv.key == lock);
        let sole = lock.and_then(Stored::in_lock);
        let mut claims: Vec<Stored> = kvs.iter().filter_map(|kv| Stored::read(line, kv)).chain(sole).collect();
        claims.sort_by_key(|claim| claim.made);
        let left_behind = kvs.iter().filter(|kv| Stored::is_left_behind(line, kv));
        let left_behind = left_behind.map(|kv| (kv.key.clone(), kv.written)).collect();
        Self { lock: lock.map(LockKey::read), claims, left_behind }
    }

    /// The claim that is called so.
    pub(crate) fn find(&self, segment: &str) -> Option<&Stored> {
        self.claims.iter().find(|claim| claim.segment == segment)
    }

    /// Those who count and are ahead of what was made at an index.
    pub(crate) fn ahead(&self, made: u64) -> Vec<Stored> {
        self.claims.iter().filter(|claim| claim.counts() && claim.made < made).cloned().collect()
    }
}

impl Store {
    /// A transaction that writes.
    pub(crate) async fn change(&self, ops: &[Op], limit: Duration) -> Result<Outcome, Fault> {
        let answer = self.link.ask(Method::PUT, "/v1/txn", json(&ops), Repeat::Never, limit).await?;
        Outcome::of(&answer)
    }

    /// Reads every key that begins like one of these, at one moment, as a majority knows it.
    pub(crate) async fn read(&self, beginnings: &[&str], limit: Duration) -> Result<Vec<Kv>, Fault> {
        let ops: Vec<Op> = beginnings.iter().map(|beginning| Op::read(beginning)).collect();
        let answer = self.link.ask(Method::PUT, "/v1/txn?consistent", json(&ops), Repeat::Freely, limit).await?;
        match Outcome::of(&answer)? {
            Outcome::Done(kvs) => Ok(kvs),
            Outcome::Refused(why) => Err(Fault::Answer(format!("{why:?}"))),
        }
    }

    /// Looks at a line.
    pub(crate) async fn line(&self, name: &Name, limit: Duration) -> Result<Look, Fault> {
        let (lock, line) = (self.keys.lock(name), self.keys.line(name));
        let kvs = self.read(&[&lock, &line], limit).await?;
        Ok(Look::new(&lock, &line, &kvs))
    }

    /// The line that a transaction has read.
    pub(crate) fn seen(&self, name: &Name, kvs: &[Kv]) -> Look {
        Look::new(&self.keys.lock(name), &self.keys.line(name), kvs)
    }

    /// Takes a claim out of its line, and gives back the lock's own key if it has it. Whether it was there.
    pub(crate) async fn take_out(&self, name: &Name, segment: &str, limit: Duration) -> Result<bool, Fault> {
        let (lock, key) = (self.keys.lock(name), self.keys.claim(name, segment));
        for _ in 0..ATTEMPTS {
            let kvs = self.read(&[&lock, &key], limit).await?;
            let look = self.seen(name, &kvs);
            let there = kvs.iter().find(|kv| kv.key == key);
            let mut ops: Vec<Op> = there.iter().map(|kv| Op::delete_at(&key, kv.written)).collect();
            let held = look.lock.as_ref().filter(|lock| lock.is_of(segment));
            if there.is_none() && held.is_none() {
                return Ok(false);
            }
            // A request to let the claim in may be on its way, and must not succeed between this look and the deletion.
            ops.push(match (held, &look.lock) {
                (Some(held), _) => Op::delete_at(&lock, held.written),
                (None, Some(other)) => Op::unchanged(&lock, other.written),
                (None, None) => Op::absent(&lock),
            });
            if let Outcome::Done(_) = self.change(&ops, limit).await? {
                return Ok(there.is_some() || look.find(segment).is_some());
            }
        }
        Err(Fault::Said(500, "the line kept changing".into()))
    }
}
