//! Getting in line, and where a claim stands.
//!
//! Taking a free mutex is one transaction: it acquires the lock's own key, which must not be there, and shows the line.
//! When nobody is in it, the claim stands in that key and needs none of its own. Who waits has one, and acquires the
//! lock's own beside it when the one ahead has left. Claims on other kinds of locks make their key and look at the
//! line; the one rule decides.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use lockhouse_core::line::kind;
use lockhouse_core::{Claim, Clock, Error, Happened, Kind, Patience, Result, Standing};
use tokio::sync::watch;

use crate::api::{OPERATIONS, Op, Outcome};
use crate::kept::{Behind, Spot};
use crate::keys::segment;
use crate::side::{Side, check, patience_for};
use crate::store::Look;
use crate::stored::{Evicted, Stored, value};
use crate::taking::{Free, Taken, free};
use crate::walk::{Stands, stands};

/// How often a claim is tried again when the line or the session changed under it.
const ATTEMPTS: u32 = 16;

pub(crate) fn is_mutex(claim: &Claim) -> bool {
    claim.capacity == kind::MUTEX
}

impl Side {
    /// Puts the claim in line or says where it stands.
    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Standing> {
        check(claim)?;
        let limit = patience_for(claim.ttl);
        let until = Clock::Boot.now() + claim.ttl.min(self.session.terms().longest_lease());
        let mut before = None;
        for _ in 0..ATTEMPTS {
            let session = self.session.current(limit).await.map_err(|fault| self.explain(fault))?;
            // It was withdrawn meanwhile, or is being withdrawn, and must not appear again: what made it is answered,
            // so nobody would look for it.
            let is_gone = before.as_ref() == Some(&session) && self.kept.spot(&claim.id).is_none();
            if is_gone || (before.is_some() && self.kept.is_parting(&claim.id)) {
                return Ok(Standing::Displaced);
            }
            before = Some(Arc::clone(&session));
            let cover = self.session.cover(&self.store.link, &session, until, limit);
            let (placed, covered) = join(self.place(claim, &session, limit), cover).await;
            let Some(standing) = placed? else { continue };
            let covered = standing == Standing::Refused || covered.map_err(|fault| self.explain(fault).unknown())?;
            if covered {
                return self.not_below_the_floor(claim, standing).await;
            }
        }
        let what = "the line or the session kept changing";
        Err(Error::new(Kind::Unreachable, what).unknown().help("see whether the servers keep electing leaders"))
    }

    /// An index cannot be raised: the token of a quorum with other engines in it may be larger.
    async fn not_below_the_floor(&self, claim: &Claim, standing: Standing) -> Result<Standing> {
        match standing {
            Standing::Granted { token } if token < claim.floor => {
                self.withdraw(claim).await.map_err(Error::unknown)?;
                let what = format!("Consul's tokens are its indexes: {token} cannot be raised to {}", claim.floor);
                let help = "name the servers of one datacenter in one URL instead of a quorum";
                Err(Error::new(Kind::Unsupported, what).help(help))
            }
            standing => Ok(standing),
        }
    }

    /// Where the claim stands; `None` when it has to be asked once more.
    async fn place(&self, claim: &Claim, session: &Arc<str>, limit: Duration) -> Result<Option<Standing>> {
        let known = self.kept.spot(&claim.id).filter(|spot| spot.session == *session);
        match known {
            Some(spot) if spot.placed.is_some() => self.stand_again(claim, spot, limit).await,
            // A request to make it got no answer: it may be there.
            Some(spot) if spot.unanswered > 0 => match self.line(&claim.name, limit).await? {
                look if look.find(&spot.segment).is_some() => self.stand(claim, &spot, look, limit).await,
                _ => self.begin(claim, session, limit).await,
            },
            _ => {
                self.kept.enter(claim, session, segment(claim, session));
                self.begin(claim, session, limit).await
            }
        }
    }

    /// A claim that is not there.
    async fn begin(&self, claim: &Claim, session: &Arc<str>, limit: Duration) -> Result<Option<Standing>> {
        let Some(spot) = self.kept.spot(&claim.id) else { return Ok(None) };
        // Who knows of somebody in line asks for a place there at once.
        if is_mutex(claim) && !self.kept.has_others(claim) {
            match self.take_alone(claim, &spot, Free::Absent, limit).await? {
                Taken::Stands(standing) => return Ok(Some(standing)),
                Taken::Again => return Ok(None),
                Taken::Occupied | Taken::Delayed => {}
            }
        }
        if claim.patience == Patience::None
            && let Some(answer) = self.try_in(claim, &spot, limit).await?
        {
            if answer == Standing::Refused {
                self.kept.leave(&claim.id);
            }
            return Ok(Some(answer));
        }
        let key = self.store.keys.claim(&claim.name, &spot.segment);
        let ops = [
            Op::acquire(&key, session, value(claim), 0),
            Op::read(&self.store.keys.lock(&claim.name)),
            Op::read(&self.store.keys.line(&claim.name)),
        ];
        match self.send(claim, &ops, limit).await? {
            Some(Outcome::Done(kvs)) => {
                let look = self.seen(&claim.name, &kvs);
                if self.has_one_place(&spot, &look, limit).await? {
                    self.kept.answered(&claim.id);
                }
                self.stand(claim, &spot, look, limit).await
            }
            None => Ok(Some(Standing::Displaced)),
            Some(Outcome::Refused(_)) => {
                self.session.lost(session);
                Ok(None)
            }
        }
    }

    /// A claim that was sent twice may have taken the lock alone by the other request: then the key that this one made
    /// is one too many, and goes. `false` when somebody wrote it meanwhile: whoever withdraws the claim looks for both.
    async fn has_one_place(&self, spot: &Spot, look: &Look, limit: Duration) -> Result<bool> {
        let own = |sole| look.claims.iter().find(|other| other.segment == spot.segment && other.sole == sole);
        let (Some(_), Some(surplus)) = (own(true), own(false)) else { return Ok(true) };
        let gone = self.store.change(&[Op::delete_at(&surplus.key, surplus.written)], limit).await;
        Ok(matches!(gone.map_err(|fault| self.explain(fault).unknown())?, Outcome::Done(_)))
    }

    /// A newcomer without patience looks before it gets in line: one that is refused changes nothing. `None` when there
    /// is room for it in the line.
    async fn try_in(&self, claim: &Claim, spot: &Spot, limit: Duration) -> Result<Option<Standing>> {
        let look = self.line(&claim.name, limit).await?;
        let held = look.lock.as_ref().is_some_and(|lock| lock.session.is_some());
        match stands(claim.weight, claim.capacity, &look.ahead(u64::MAX)) {
            Stands::Conflict(capacity) => self.conflict(claim, capacity).await.map(Some),
            Stands::Behind(_) => Ok(Some(Standing::Refused)),
            Stands::In if held && !is_mutex(claim) => self.conflict(claim, kind::MUTEX).await.map(Some),
            Stands::In if held => Ok(Some(Standing::Refused)),
            Stands::In if is_mutex(claim) => match self.take_alone(claim, spot, free(&look), limit).await? {
                Taken::Stands(standing) => Ok(Some(standing)),
                Taken::Occupied | Taken::Delayed | Taken::Again => Ok(Some(Standing::Refused)),
            },
            Stands::In => Ok(None),
        }
    }

    /// Where a claim stands that has its place.
    async fn stand(&self, claim: &Claim, spot: &Spot, look: Look, limit: Duration) -> Result<Option<Standing>> {
        let Some(own) = look.find(&spot.segment) else {
            self.kept.displaced(&claim.id);
            return Ok(None);
        };
        let lock = look.lock.as_ref().filter(|lock| is_mutex(claim) && lock.is_of(&own.segment));
        if let Some(lock) = lock
            && (spot.returning == Some(lock.written) || !look.ahead(own.made).is_empty())
        {
            // Others come first: that was found out before, and the answer to giving it back was lost.
            self.give_back(claim, lock.written, limit).await?;
            self.kept.displaced(&claim.id);
            return Ok(None);
        }
        self.kept.placed(claim, own);
        if claim.weight > own.weight {
            let what = format!("the claim weighs {}, and cannot be raised to {}", own.weight, claim.weight);
            return Err(Error::new(Kind::Invalid, what).help("there is no upgrade: release, then lock anew"));
        }
        if claim.weight < own.weight {
            self.lighten(claim, own, limit).await?;
            return Ok(None);
        }
        if let Some(lock) = lock {
            // Since then it has been written by who evicted it, at most.
            let token = if own.sole { own.made } else { lock.written };
            self.kept.holds(&claim.id, Some(token));
            return Ok(Some(Standing::Granted { token }));
        }
        let ahead = look.ahead(own.made);
        let held = look.lock.as_ref().filter(|lock| lock.session.is_some());
        let stands = stands(claim.weight, claim.capacity, &ahead);
        // Not let in before, and not to be let in any more.
        let shut_out = own.evicted != Evicted::No && (is_mutex(claim) || stands != Stands::In);
        match (stands, held) {
            (Stands::Conflict(capacity), _) => self.conflict(claim, capacity).await.map(Some),
            _ if shut_out || own.evicted == Evicted::Waiter => self.refuse(claim).await.map(Some),
            (Stands::Behind(met), _) => self.queue(claim, &met, &ahead).await.map(Some),
            (Stands::In, Some(_)) if !is_mutex(claim) => self.conflict(claim, kind::MUTEX).await.map(Some),
            (Stands::In, Some(lock)) => {
                // Another program, or somebody of whom nothing else is left.
                let keys = vec![(self.store.keys.lock(&claim.name), lock.written)];
                let behind = Behind::Together { keys, here: Vec::new() };
                self.wait_for(claim, behind, 1).await.map(Some)
            }
            (Stands::In, None) if is_mutex(claim) => {
                let Some(spot) = self.kept.spot(&claim.id) else { return Ok(None) };
                let Some(placed) = spot.placed else { return Ok(None) };
                match self.take(claim, &spot, placed, free(&look), limit).await? {
                    Taken::Stands(standing) => Ok(Some(standing)),
                    Taken::Occupied | Taken::Again => Ok(None),
                    Taken::Delayed => self.wait_for(claim, Behind::Pause, 1).await.map(Some),
                }
            }
            (Stands::In, None) => {
                self.kept.holds(&claim.id, None);
                Ok(Some(Standing::Granted { token: own.made }))
            }
        }
    }

    /// A claim that had its place when it was last heard of.
    async fn stand_again(&self, claim: &Claim, spot: Spot, limit: Duration) -> Result<Option<Standing>> {
        if let Some(placed) = spot.placed.filter(|placed| placed.weight == claim.weight) {
            // What got no answer may have changed more than those whom it waits for.
            if spot.unanswered == 0 && self.still_waits(claim, &spot, limit).await? {
                self.kept.renewed(claim);
                return Ok(Some(Standing::Queued { ahead: spot.ahead }));
            }
            // Whoever stood in its way is gone. When others may be there, it looks before it writes.
            let alone = !matches!(spot.behind, None | Some(Behind::Here { next: false, .. }));
            if is_mutex(claim)
                && alone
                && let Taken::Stands(standing) = self.take(claim, &spot, placed, Free::Absent, limit).await?
            {
                return Ok(Some(standing));
            }
        }
        let look = self.line(&claim.name, limit).await?;
        self.stand(claim, &spot, look, limit).await
    }

    /// Whether everything is as it was: the claim's own key, and those whom it waits for.
    async fn still_waits(&self, claim: &Claim, spot: &Spot, limit: Duration) -> Result<bool> {
        let Some(placed) = spot.placed else { return Ok(false) };
        let stays = |own: &watch::Receiver<()>| own.has_changed().is_ok_and(|changed| !changed);
        let mut seen = vec![(self.store.keys.claim(&claim.name, &spot.segment), placed.written)];
        match &spot.behind {
            Some(Behind::Here { leaving, .. }) if stays(leaving) => {}
            Some(Behind::Together { keys, here }) if here.iter().all(stays) => seen.extend(keys.iter().cloned()),
            _ => return Ok(false),
        }
        let keys: Vec<&str> = seen.iter().map(|(key, _)| key.as_str()).collect();
        // A semaphore's claim may wait for many. Then the whole line is looked at.
        if keys.len() > OPERATIONS {
            return Ok(false);
        }
        let kvs = self.store.read(&keys, limit).await.map_err(|fault| self.explain(fault))?;
        let found = |(key, written): &(String, u64)| kvs.iter().any(|kv| kv.key == *key && kv.written == *written);
        Ok(seen.iter().all(found))
    }

    /// The claim waits until one of those who stand in its way leaves.
    pub(crate) async fn queue(&self, claim: &Claim, met: &[&Stored], ahead: &[Stored]) -> Result<Standing> {
        let behind = self.behind(claim, met, ahead);
        self.wait_for(claim, behind, u32::try_from(ahead.len()).unwrap_or(u32::MAX)).await
    }

    async fn wait_for(&self, claim: &Claim, behind: Behind, ahead: u32) -> Result<Standing> {
        if claim.patience == Patience::None {
            return self.refuse(claim).await;
        }
        self.kept.waits(&claim.id, behind, ahead);
        Ok(Standing::Queued { ahead })
    }

    /// Takes the claim out: it is refused.
    async fn refuse(&self, claim: &Claim) -> Result<Standing> {
        self.withdraw(claim).await?;
        Ok(Standing::Refused)
    }

    /// Takes the claim out: the name is in use in another way.
    pub(crate) async fn conflict(&self, claim: &Claim, capacity: u32) -> Result<Standing> {
        let left = self.withdraw(claim).await;
        let what = format!("the name is in use with capacity {capacity}, not {}", claim.capacity);
        let error =
            Error::new(Kind::Conflict, what).help("use one kind of lock, and one number of permits, for a name");
        Err(if left.is_ok() { error } else { error.unknown() })
    }

    /// Makes a claim weigh less, unless it was written in the meantime.
    async fn lighten(&self, claim: &Claim, own: &Stored, limit: Duration) -> Result<()> {
        let lighter = Stored { weight: claim.weight, ..own.clone() };
        let ops = [Op::write(&own.key, own.written, lighter.value())];
        self.store.change(&ops, limit).await.map_err(|fault| self.explain(fault))?;
        self.kept.lighter(&claim.id);
        Ok(())
    }

    /// Sends what makes the claim or lets it in, and remembers whether that may still be carried out: whoever hears
    /// that it was says so to [`Kept::answered`](crate::kept::Kept::answered) when all it did is noted. `None` when the
    /// claim is withdrawn meanwhile: it must not appear again.
    pub(crate) async fn send(&self, claim: &Claim, ops: &[Op], limit: Duration) -> Result<Option<Outcome>> {
        if !self.kept.sending(&claim.id) {
            return Ok(None);
        }
        let outcome = self.store.change(ops, limit).await.map_err(|fault| self.explain(fault));
        let in_vain = match &outcome {
            Ok(Outcome::Done(_)) => false,
            Ok(Outcome::Refused(_)) => true,
            Err(error) => error.may_have_happened() == Happened::No,
        };
        if in_vain {
            self.kept.answered(&claim.id);
        }
        outcome.map(Some)
    }
}
