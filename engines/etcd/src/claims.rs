//! Claiming: one transaction puts the claim in line and shows who is ahead.

use std::time::Duration;

use futures_util::future::join;
use lockhouse_core::{Claim, Clock, Error, Kind, Moment, Patience, Result, Standing};

use crate::error::{ENGINE, Fault};
use crate::kept::Behind;
use crate::leases::Covered;
use crate::ops::{
    Outcome, header, made_at, newest_before, nothing_begins, nothing_written_after, point, put, rewrite, txn,
};
use crate::proto::{RangeResponse, Request};
use crate::side::{PATIENCE, Side, patience_for};
use crate::stored::{Stored, value};
use crate::walk::Walk;

/// The shortest lease: what etcd gives at least with its usual settings, half as much again as an election takes.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(2);
/// How often a claim is tried again when the line or the lease changed under it.
const ATTEMPTS: u32 = 8;
/// How often a claim without patience is tried again when only others' writes were in its way.
const TRIES: u32 = 64;
/// A lease that ends before the claim's TTL by no more than one part in this many is long enough, so that it need not
/// be kept alive with every claim of many. A client believes in a claim for one part in a hundred less than its TTL,
/// because two clocks may differ in speed. Half of that is left, and that is ten times what NTP slows a clock by.
const EARLY: u32 = 200;
/// What a member that has not heard of the new leader is given.
const BETWEEN_TERMS: Duration = Duration::from_millis(20);

/// What became of one transaction of a claim.
#[derive(Debug)]
enum Placed {
    /// It stands so, in the eyes of the leader of this term.
    Stands(Standing, u64),
    /// It stands so whatever becomes of the client's leases: it has one of its own, and is left as it is.
    Lingers(Standing),
    /// What was known of it has changed: look again.
    Again,
    /// It was withdrawn meanwhile, and must not appear again.
    Withdrawn,
}

impl Side {
    /// Puts the claim in line or says where it stands.
    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Standing> {
        check(claim)?;
        let until = Clock::Boot.now() + (claim.ttl - claim.ttl / EARLY);
        for attempt in 0..ATTEMPTS {
            // It was withdrawn meanwhile, and must not appear again.
            if attempt > 0 && self.kept.spot(&claim.id).is_none() {
                return Ok(Standing::Displaced);
            }
            let known = self.kept.spot(&claim.id).and_then(|spot| Some((spot.lease, spot.made?)));
            let lease = match known {
                Some((lease, _)) => lease,
                None => self.lease_for(claim).await.map_err(|fault| self.explain(fault))?,
            };
            // Before it is sent: whatever becomes of this call, the claim may be there.
            self.kept.enter(claim, lease);
            let place = self.place(claim, lease, known.map(|(_, made)| made));
            let (placed, covered) = join(place, self.cover(lease, until, patience_for(claim.ttl))).await;
            let standing = match placed? {
                Placed::Lingers(standing) => standing,
                Placed::Withdrawn => return Ok(Standing::Displaced),
                Placed::Stands(standing, term) if self.is_worth(standing, term, lease, until, covered).await? => {
                    standing
                }
                Placed::Stands(..) | Placed::Again => continue,
            };
            return self.not_below_the_floor(claim, standing, known.is_none()).await;
        }
        let what = "the line or its leases kept changing";
        Err(Error::new(Kind::Unreachable, what).unknown().help("see whether the members keep electing leaders"))
    }

    /// A revision cannot be raised: the token of a quorum with other engines in it may be larger.
    async fn not_below_the_floor(&self, claim: &Claim, standing: Standing, new: bool) -> Result<Standing> {
        match standing {
            Standing::Granted { token } if token < claim.floor => {
                if new {
                    self.withdraw(claim).await.map_err(Error::unknown)?;
                }
                let what = format!("etcd's tokens are its revisions: {token} cannot be raised to {}", claim.floor);
                let help = "name the members of one etcd cluster in one URL instead of a quorum";
                Err(Error::new(Kind::Unsupported, what).help(help))
            }
            standing => Ok(standing),
        }
    }

    /// Whether a standing can be told: its lease must live long enough, as the same leader says.
    async fn is_worth(
        &self,
        standing: Standing,
        term: u64,
        lease: i64,
        until: Moment,
        covered: Result<Covered, Fault>,
    ) -> Result<bool> {
        if standing == Standing::Refused {
            return Ok(true);
        }
        match covered {
            Ok(Covered::By(promised)) if promised == term => Ok(true),
            Ok(Covered::By(_)) => {
                self.kept.doubt(lease);
                tokio::time::sleep(BETWEEN_TERMS).await;
                let again = self.cover(lease, until, PATIENCE).await;
                // The transaction was sent after the moment from which the lease must last.
                Ok(again.map_err(|fault| self.explain(fault).unknown())? == Covered::By(term))
            }
            Ok(Covered::Gone) => Ok(false),
            Err(fault) => Err(self.explain(fault).unknown()),
        }
    }

    async fn place(&self, claim: &Claim, lease: i64, made: Option<i64>) -> Result<Placed> {
        let placed = match (made, claim.patience) {
            (Some(made), _) => self.stand_again(claim, lease, made).await,
            (None, Patience::None) => self.get_in(claim, lease).await,
            (None, Patience::Waits | Patience::Barges) => self.join(claim, lease).await,
        };
        match placed {
            Ok(placed) => placed,
            // It was ended, or its time was over. Nothing was written.
            Err(fault) if fault.is_lease_gone() => {
                self.kept.end(lease);
                Ok(Placed::Again)
            }
            Err(fault) => Err(self.explain(fault)),
        }
    }

    /// A new claim that waits. Most often nobody is there, and then nothing need be read.
    async fn join(&self, claim: &Claim, lease: i64) -> Result<Result<Placed>, Fault> {
        // What was sent before may have been carried out, and an operator may have taken it out since.
        let is_new = self.kept.spot(&claim.id).is_some_and(|spot| spot.unanswered == 0);
        if !is_new || self.kept.is_busy(&claim.name) {
            return self.join_behind(claim, lease).await;
        }
        let (line, key) = (self.keys.line(&claim.name), self.key(claim));
        let request = txn(vec![nothing_begins(line)], vec![put(key, value(claim), lease)], Vec::new());
        let Some(outcome) = self.make(claim, &request).await? else { return Ok(Ok(Placed::Withdrawn)) };
        if !outcome.succeeded {
            return self.join_behind(claim, lease).await;
        }
        self.kept.made(&claim.id, Some(outcome.revision));
        let token = outcome.revision.unsigned_abs();
        Ok(Ok(Placed::Stands(Standing::Granted { token }, outcome.term)))
    }

    /// A new claim beside others: it is written, and whoever was there before is ahead.
    async fn join_behind(&self, claim: &Claim, lease: i64) -> Result<Result<Placed>, Fault> {
        let (line, key) = (self.keys.line(&claim.name), self.key(claim));
        let out = self.keys.evicted(&claim.id);
        let request = txn(
            vec![made_at(key.clone(), 0), made_at(out.clone(), 0)],
            vec![put(key.clone(), value(claim), lease), Request::Range(newest_before(line, i64::MAX, page(claim)))],
            vec![Request::Range(point(key)), Request::Range(point(out))],
        );
        let Some(mut outcome) = self.make(claim, &request).await? else { return Ok(Ok(Placed::Withdrawn)) };
        if !outcome.succeeded {
            return self.found(claim, &mut outcome).map(Ok);
        }
        self.kept.made(&claim.id, Some(outcome.revision));
        let ahead = outcome.read()?;
        self.kept.busy(&claim.name, !ahead.kvs.is_empty());
        Ok(self.stands(claim, outcome.revision, ahead, &outcome).await)
    }

    /// A claim that is there already, as far as is known.
    async fn stand_again(&self, claim: &Claim, lease: i64, made: i64) -> Result<Result<Placed>, Fault> {
        let (line, key) = (self.keys.line(&claim.name), self.key(claim));
        let request = txn(
            vec![made_at(key.clone(), made)],
            vec![Request::Range(point(key.clone())), Request::Range(newest_before(line.clone(), made, page(claim)))],
            vec![Request::Range(point(key.clone())), Request::Range(point(self.keys.evicted(&claim.id)))],
        );
        let mut outcome = self.look(&request, patience_for(claim.ttl)).await?;
        if !outcome.succeeded {
            return self.found(claim, &mut outcome).map(Ok);
        }
        let own =
            outcome.key()?.and_then(|kv| Stored::read(&line, kv)).ok_or(Fault::Answer("a key that is no claim"))?;
        if own.id != Some(claim.id) {
            // Somebody put an older state of the store back. Whoever claims anew gets another seat.
            self.kept.leave(&claim.id);
            return Ok(Ok(Placed::Again));
        }
        if claim.weight > own.weight {
            let what = format!("the claim weighs {}, and cannot be raised to {}", own.weight, claim.weight);
            let help = "there is no upgrade: release, then lock anew";
            return Ok(Err(Error::new(Kind::Invalid, what).help(help)));
        }
        if own.lingers {
            let placed = self.stands(claim, made, outcome.read()?, &outcome).await;
            return Ok(placed.map(|placed| match placed {
                Placed::Stands(standing, _) => Placed::Lingers(standing),
                other => other,
            }));
        }
        if own.lease != lease {
            // It is bound to another lease than was thought: to that of an earlier attempt, or to its own.
            self.kept.enter(claim, own.lease);
            return Ok(Ok(Placed::Again));
        }
        if claim.weight < own.weight && !self.lighten(claim, &own).await? {
            return Ok(Ok(Placed::Again));
        }
        let ahead = outcome.read()?;
        let placed = self.stands(claim, made, ahead, &outcome).await;
        match placed {
            Ok(Placed::Stands(Standing::Queued { .. }, term)) if own.evicted => {
                Ok(self.withdraw(claim).await.map(|_| Placed::Stands(Standing::Refused, term)))
            }
            placed => Ok(placed),
        }
    }

    /// A new claim without patience: written only when that lets it in.
    async fn get_in(&self, claim: &Claim, lease: i64) -> Result<Result<Placed>, Fault> {
        let (line, key) = (self.keys.line(&claim.name), self.key(claim));
        let mut condition = nothing_begins(line.clone());
        for _ in 0..TRIES {
            let request = txn(
                vec![condition, made_at(key.clone(), 0)],
                vec![put(key.clone(), value(claim), lease)],
                vec![
                    Request::Range(point(key.clone())),
                    Request::Range(newest_before(line.clone(), i64::MAX, page(claim))),
                ],
            );
            let Some(mut outcome) = self.make(claim, &request).await? else { return Ok(Ok(Placed::Withdrawn)) };
            let (revision, term) = (outcome.revision, outcome.term);
            if outcome.succeeded {
                self.kept.made(&claim.id, Some(revision));
                return Ok(Ok(Placed::Stands(Standing::Granted { token: revision.unsigned_abs() }, term)));
            }
            if let Some(own) = outcome.key()? {
                self.kept.made(&claim.id, Some(own.create_revision));
                return Ok(Ok(Placed::Again));
            }
            let seen = Seen { all: outcome.read()?, revision };
            match self.in_the_way(claim, i64::MAX, seen).await {
                Ok(None) => return Ok(Ok(Placed::Again)),
                Ok(Some((keys, _))) if !keys.is_empty() => {
                    self.kept.vacate(claim);
                    return Ok(Ok(Placed::Stands(Standing::Refused, term)));
                }
                // There is room. What was seen must still be all there is, but for those who left.
                Ok(Some((_, revision))) => condition = nothing_written_after(line.clone(), revision),
                Err(error) => {
                    self.kept.vacate(claim);
                    return Ok(Err(error));
                }
            }
        }
        let what = "others kept writing beside this lock";
        Ok(Err(Error::new(Kind::Unreachable, what).help("wait for the lock instead of trying")))
    }

    /// Where a claim stands whose key was made at a revision, behind these.
    async fn stands(&self, claim: &Claim, made: i64, ahead: RangeResponse, outcome: &Outcome) -> Result<Placed> {
        let seen = Seen { all: ahead, revision: outcome.revision };
        let (keys, revision) = match self.in_the_way(claim, made, seen).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Placed::Again),
            Err(error) => {
                let left = self.withdraw(claim).await;
                return Err(if left.is_ok() { error } else { error.unknown() });
            }
        };
        let standing = if keys.is_empty() {
            Standing::Granted { token: made.unsigned_abs() }
        } else {
            let ahead = u32::try_from(keys.len()).unwrap_or(u32::MAX);
            self.kept.waits(&claim.id, Behind { keys, revision });
            Standing::Queued { ahead }
        };
        if claim.patience == Patience::None && matches!(standing, Standing::Queued { .. }) {
            self.withdraw(claim).await?;
            return Ok(Placed::Stands(Standing::Refused, outcome.term));
        }
        Ok(Placed::Stands(standing, outcome.term))
    }

    /// Who stands in a claim's way, nobody if it is granted, and at which revision; `None` when the claim itself is
    /// not there any more.
    async fn in_the_way(&self, claim: &Claim, made: i64, seen: Seen) -> Result<Option<(Vec<Vec<u8>>, i64)>> {
        let (line, own) = (self.keys.line(&claim.name), self.key(claim));
        let more = seen.all.more;
        let walk = |kvs: Vec<_>| {
            let mut walk = Walk::from(claim);
            let ahead = kvs.into_iter().filter_map(|kv| Stored::read(&line, kv));
            let mut ahead = ahead.filter(|stored| stored.made < made && stored.key != own);
            ahead.find_map(|stored| walk.meet(stored).transpose()).transpose()
        };
        if let Some(keys) = walk(seen.all.kvs)? {
            return Ok(Some((keys, seen.revision)));
        }
        if !more {
            return Ok(Some((Vec::new(), seen.revision)));
        }
        // Rare: many readers, or many keys of longer names. All of them, and the claim itself to see that it is there.
        let everyone = newest_before(line.clone(), made.saturating_add(1), 0);
        let all = self.range(&everyone, patience_for(claim.ttl)).await?;
        let revision = header(all.header).map_err(|fault| self.explain(fault))?.revision;
        if made != i64::MAX && !all.kvs.iter().any(|kv| kv.key == own && kv.create_revision == made) {
            return Ok(None);
        }
        Ok(Some((walk(all.kvs)?.unwrap_or_default(), revision)))
    }

    /// The claim is not there as it was thought to be: what is there instead.
    fn found(&self, claim: &Claim, outcome: &mut Outcome) -> Result<Placed, Fault> {
        let (own, out) = (outcome.key()?, outcome.key()?);
        self.kept.made(&claim.id, own.as_ref().map(|own| own.create_revision));
        if own.is_none() && out.is_some() {
            self.kept.leave(&claim.id);
            return Ok(Placed::Stands(Standing::Refused, outcome.term));
        }
        Ok(Placed::Again)
    }

    /// Makes a claim weigh less. `false` when it was written in the meantime.
    async fn lighten(&self, claim: &Claim, own: &Stored) -> Result<bool, Fault> {
        let lighter = Stored { weight: claim.weight, ..own.clone() };
        let unchanged = crate::ops::written_at(own.key.clone(), own.written);
        let request = txn(vec![unchanged], vec![rewrite(own.key.clone(), lighter.value())], Vec::new());
        Ok(self.change(&request, patience_for(claim.ttl)).await?.succeeded)
    }
}

/// A part of a line at a revision.
struct Seen {
    all: RangeResponse,
    revision: i64,
}

/// How many are looked at in the first transaction: for a mutex the one just ahead decides.
fn page(claim: &Claim) -> i64 {
    if claim.weight == claim.capacity { 4 } else { 64 }
}

/// What makes no sense, here or anywhere.
fn check(claim: &Claim) -> Result<()> {
    let invalid = |what: String, help: &str| Err(Error::new(Kind::Invalid, what).help(help).engine(ENGINE));
    if claim.weight == 0 || claim.weight > claim.capacity {
        let what = format!("a weight of {} never fits into a capacity of {}", claim.weight, claim.capacity);
        return invalid(what, "ask for at least one permit, and for no more than there are");
    }
    if claim.ttl < MIN_TTL && !claim.lingers {
        let what = format!("a lease of {:?} is too short", claim.ttl);
        return invalid(what, "two seconds is the least that etcd keeps");
    }
    Ok(())
}
