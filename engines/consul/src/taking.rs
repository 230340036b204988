//! Acquiring the lock's own key: alone, or after a wait.

use std::time::Duration;

use lockhouse_core::{Claim, Result, Standing};

use crate::api::{Kv, LOCK_FLAGS, Op, Outcome};
use crate::kept::{Placed, Spot};
use crate::side::Side;
use crate::store::Look;
use crate::stored::{handed_to, sole};
use crate::walk::{Stands, stands};

/// What became of an attempt to acquire the lock's own key.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The claim stands so now.
    Stands(Standing),
    /// Somebody has it.
    Occupied,
    /// Nobody has it, and nobody may: another program's session has ended, and asked for a pause.
    Delayed,
    /// The session is over.
    Again,
}

/// How the lock's own key is free.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Free {
    /// There is none.
    Absent,
    /// It was released at this index, and left there.
    Released(u64),
}

impl Free {
    /// Only if it still is.
    fn still(self, lock: &str) -> Op {
        match self {
            Self::Absent => Op::absent(lock),
            Self::Released(at) => Op::unchanged(lock, at),
        }
    }

    /// Only if it still is, and it is not there from then on.
    fn gone(self, lock: &str) -> Op {
        match self {
            Self::Absent => Op::absent(lock),
            Self::Released(at) => Op::delete_at(lock, at),
        }
    }
}

impl Side {
    /// Acquires the lock's own key for a mutex's claim that is not in line, if nobody is. It stands there then: when
    /// the key was made is its place in line, and its token.
    pub(crate) async fn take_alone(&self, claim: &Claim, spot: &Spot, free: Free, limit: Duration) -> Result<Taken> {
        let keys = &self.store.keys;
        let lock = keys.lock(&claim.name);
        let ops = [
            free.gone(&lock),
            // Should this come so late that the claim got in line meanwhile, it has nothing to do any more.
            Op::absent(&keys.claim(&claim.name, &spot.segment)),
            Op::acquire(&lock, &spot.session, sole(&spot.segment, claim), LOCK_FLAGS),
            Op::read(&keys.line(&claim.name)),
        ];
        let kvs = match self.acquire(claim, spot, &ops, limit).await? {
            Ok(kvs) => kvs,
            Err(taken) => return Ok(taken),
        };
        let token = kvs.iter().rfind(|kv| kv.key == lock).map_or(0, |kv| kv.written);
        if self.seen(&claim.name, &kvs).claims.iter().all(|other| other.segment == spot.segment) {
            self.kept.holds_alone(claim, token);
            self.kept.answered(&claim.id);
            return Ok(Taken::Stands(Standing::Granted { token }));
        }
        // Nobody had it, but others are in line: it is theirs.
        if !self.give_back(claim, token, limit).await? {
            // An operator has marked it.
            let out = self.store.take_out(&claim.name, &spot.segment, limit).await;
            out.map_err(|fault| self.explain(fault).unknown())?;
        }
        self.kept.answered(&claim.id);
        Ok(Taken::Occupied)
    }

    /// Acquires the lock's own key for a mutex's claim that waited, and whose own key must be as it was.
    pub(crate) async fn take(
        &self,
        claim: &Claim,
        spot: &Spot,
        own: Placed,
        free: Free,
        limit: Duration,
    ) -> Result<Taken> {
        let keys = &self.store.keys;
        let (lock, key) = (keys.lock(&claim.name), keys.claim(&claim.name, &spot.segment));
        let ops = [
            free.still(&lock),
            Op::unchanged(&key, own.written),
            Op::acquire(&lock, &spot.session, handed_to(&spot.segment, claim.owner.label()), LOCK_FLAGS),
            Op::read(&keys.line(&claim.name)),
        ];
        let kvs = match self.acquire(claim, spot, &ops, limit).await? {
            Ok(kvs) => kvs,
            Err(taken) => return Ok(taken),
        };
        let token = kvs.iter().rfind(|kv| kv.key == lock).map_or(0, |kv| kv.written);
        let look = self.seen(&claim.name, &kvs);
        let Some(stored) = look.find(&spot.segment) else { return Ok(Taken::Again) };
        self.kept.placed(claim, stored);
        let ahead = look.ahead(stored.made);
        if ahead.is_empty() {
            self.kept.holds(&claim.id, Some(token));
            self.kept.answered(&claim.id);
            return Ok(Taken::Stands(Standing::Granted { token }));
        }
        // Nobody had it, but others are ahead: it is theirs.
        self.give_back(claim, token, limit).await?;
        self.kept.answered(&claim.id);
        match stands(claim.weight, claim.capacity, &ahead) {
            Stands::Conflict(capacity) => self.conflict(claim, capacity).await.map(Taken::Stands),
            Stands::Behind(met) => self.queue(claim, &met, &ahead).await.map(Taken::Stands),
            Stands::In => Ok(Taken::Again),
        }
    }

    /// Carries out what acquires the lock's own key: what it has shown, or why it was not carried out.
    async fn acquire(&self, claim: &Claim, spot: &Spot, ops: &[Op], limit: Duration) -> Result<Result<Vec<Kv>, Taken>> {
        Ok(match self.send(claim, ops, limit).await? {
            Some(Outcome::Done(kvs)) => Ok(kvs),
            None => Err(Taken::Stands(Standing::Displaced)),
            Some(Outcome::Refused(why)) if why.is_sessions_end() => {
                self.session.lost(&spot.session);
                Err(Taken::Again)
            }
            Some(Outcome::Refused(why)) if why.is_lock_delay() => Err(Taken::Delayed),
            Some(Outcome::Refused(_)) => Err(Taken::Occupied),
        })
    }

    /// Gives the lock's own key back that a claim has acquired at this index, since others come first. Until that is
    /// answered, whoever finds that the claim has it does not take it for a hold: it may be gone in the next moment.
    /// `false` when somebody has written it since.
    pub(crate) async fn give_back(&self, claim: &Claim, index: u64, limit: Duration) -> Result<bool> {
        self.kept.returns(&claim.id, Some(index));
        let lock = self.store.keys.lock(&claim.name);
        let given = self.store.change(&[Op::delete_at(&lock, index)], limit).await;
        let given = given.map_err(|fault| self.explain(fault).unknown())?;
        self.kept.returns(&claim.id, None);
        Ok(matches!(given, Outcome::Done(_)))
    }
}

/// How the lock's own key is free where it was seen that nobody has it.
pub(crate) fn free(look: &Look) -> Free {
    look.lock.as_ref().map_or(Free::Absent, |lock| Free::Released(lock.written))
}
