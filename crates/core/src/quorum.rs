//! A majority of independent engines: the Redlock idea, over any engine.
//!
//! Every claim goes to all members at once and is granted when a majority grants it: two majorities share a member, and
//! that member would have to grant both. A minority that is down or hangs neither fails nor slows a request: it is
//! answered as soon as a majority decides it, and what is still on its way is finished in the background.
//!
//! **Tokens.** Each member counts its own grants. The token is the highest among those that granted, and it counts only
//! when a majority has written it back: any later grant shares a member with that majority, whose counter is past it.
//!
//! **Waiting.** Members are reached in different orders, so claims that stood in every line could each head some of
//! them and none get a majority. A claim that has to wait therefore keeps its place with one member only, the first of
//! those that can be reached, and asks the others again when its turn has come there. Where clients do not agree which
//! member is the first, or a release has not reached all members yet, a claim can be granted by a minority: it asks
//! again a few random moments apart, and then goes to the end of the line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::claim::{Claim, ClaimId, Patience, PublicId};
use crate::engine::{Cell, Engine, Renewal, Standing, Withdrawal, Write, Written};
use crate::error::{Error, Kind, Result};
use crate::fan_out::FanOut;
use crate::guarantees::{CrashFrees, Exclusion, Guarantees, TokenSurvives};
use crate::name::Name;
use crate::random;
use crate::survey::{Line, Place};

/// A majority of independent engines.
#[derive(Debug)]
pub struct Quorum {
    fan_out: FanOut,
    /// With which member a claim waits: set when it is put in line, until it sleeps no more.
    waits_at: Mutex<HashMap<ClaimId, usize>>,
}

/// How long a claim that a minority grants waits before it asks again, each time: long enough for a release that
/// reaches the members one after the other, random so that two such claims do not keep step.
const SPLIT_PAUSES: [(Duration, Duration); 3] = [
    (Duration::from_millis(1), Duration::from_millis(3)),
    (Duration::from_millis(5), Duration::from_millis(15)),
    (Duration::from_millis(10), Duration::from_millis(40)),
];

/// What slow members get at the least to answer a claim that the others have put in line.
const STRAGGLERS: Duration = Duration::from_millis(5);
/// How soon a claim asks again when the member that it waited with cannot be asked any more.
const MEMBER_LOST: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(100));

/// Longer than any limit of a member.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);
/// How long members get to answer what people ask.
const FOR_PEOPLE: Duration = Duration::from_secs(1);
const OUT_OF_REACH: &str = "a majority of the members is out of reach";

fn random_pause((shortest, longest): (Duration, Duration)) -> Duration {
    shortest + (longest - shortest).mul_f64(random::fraction())
}

/// A member gets this part of the lease to answer, within these bounds.
fn member_limit(ttl: Duration) -> Duration {
    (ttl / 10).clamp(Duration::from_millis(20), Duration::from_secs(1))
}

/// What the members said to one claim.
#[derive(Debug, Default)]
struct Votes {
    granted: Vec<(usize, u64)>,
    queued: Vec<(usize, u32)>,
    refused: usize,
    error: Option<Error>,
}

/// What a round of votes comes to.
enum Outcome {
    Granted(Vec<(usize, u64)>),
    /// Not granted, or only by a minority.
    Waiting(Votes),
    Refused,
}

impl Quorum {
    /// A quorum over these members. Each must be independent of the others: its own server, its own disk.
    ///
    /// # Errors
    /// [`Kind::Invalid`] unless there are at least three members, and an odd number of them.
    pub fn new(members: Vec<Arc<dyn Engine>>) -> Result<Self> {
        if members.len() < 3 || members.len().is_multiple_of(2) {
            let what = format!("a quorum of {} members is no safer than one with fewer", members.len());
            return Err(Error::new(Kind::Invalid, what).help("give it 3, 5 or 7 independent members"));
        }
        Ok(Self { fan_out: FanOut::new(members), waits_at: Mutex::default() })
    }

    fn majority(&self) -> usize {
        self.fan_out.members().len() / 2 + 1
    }

    /// One round: the claim to every member, until the votes decide.
    async fn round(&self, claim: &Claim) -> Result<Outcome> {
        let (all, majority) = (self.fan_out.members().len(), self.majority());
        let limit = member_limit(claim.ttl);
        let mut answers = self.fan_out.claim(claim, limit);
        let mut votes = Votes::default();
        let started = Instant::now();
        let mut enough = None;
        for answered in 1..=all {
            // Who waits hears of the slower ones too: a grant by one of them would otherwise stay unknown, and in the
            // way. They get as much time again as the others took, so that one that hangs costs little.
            let patience = enough.unwrap_or(started + LONGEST_ANSWER);
            let Ok(Some((member, answer))) = tokio::time::timeout_at(patience, answers.next()).await else { break };
            match answer {
                Ok(Standing::Granted { token }) => votes.granted.push((member, token)),
                Ok(Standing::Queued { ahead }) => votes.queued.push((member, ahead)),
                Ok(Standing::Refused) => votes.refused += 1,
                Err(error) if matches!(error.kind(), Kind::Conflict | Kind::Invalid) => return Err(error),
                Err(error) => votes.error = Some(error),
            }
            let open = all - answered;
            if votes.granted.len() >= majority {
                return Ok(Outcome::Granted(votes.granted));
            }
            let reached = votes.granted.len() + votes.queued.len() + votes.refused;
            if votes.granted.len() + open < majority && reached >= majority {
                if claim.patience == Patience::None {
                    return Ok(Outcome::Refused);
                }
                enough = enough.or_else(|| Some(Instant::now() + started.elapsed() + STRAGGLERS));
            }
        }
        if enough.is_some() {
            // Only an operator refuses a claim that waits, and it waits with one member only.
            let evicted = votes.refused > 0;
            return Ok(if evicted { Outcome::Refused } else { Outcome::Waiting(votes) });
        }
        Err(votes.error.map_or_else(
            || Error::new(Kind::Unreachable, "too few members answered").unknown(),
            |error| Error::new(Kind::Unreachable, OUT_OF_REACH).unknown().because(error),
        ))
    }

    /// The grant counts when a majority has its token.
    async fn write_back(&self, claim: &Claim, granted: Vec<(usize, u64)>) -> Result<Standing> {
        let token = match claim.floor {
            0 => granted.iter().map(|(_, token)| *token).max().unwrap_or(0),
            // Asked for again by somebody who knows the token: a member that came late must not change it.
            floor => floor,
        };
        let behind: Vec<usize> = granted.iter().filter(|(_, own)| *own != token).map(|(member, _)| *member).collect();
        let mut written = granted.len() - behind.len();
        if written < self.majority() {
            let again = Claim { floor: token, ..claim.clone() };
            let mut answers = self.fan_out.claim_at(&behind, &again, member_limit(claim.ttl));
            while let Some((_, answer)) = answers.next().await {
                if matches!(answer, Ok(Standing::Granted { token: own }) if own >= token) {
                    written += 1;
                }
                if written >= self.majority() {
                    break;
                }
            }
        }
        if written >= self.majority() {
            return Ok(Standing::Granted { token });
        }
        Err(Error::new(Kind::Unreachable, "the token could not be written back to a majority").unknown())
    }

    /// Keeps the claim's place with the first member that has one, and gives the others back.
    async fn stay_in_line(&self, claim: &Claim, votes: &Votes) -> Standing {
        let queued = votes.queued.iter().map(|(member, _)| *member);
        let standing: Vec<usize> = queued.chain(votes.granted.iter().map(|(member, _)| *member)).collect();
        let first = standing.iter().copied().min().unwrap_or(0);
        let others: Vec<usize> = standing.into_iter().filter(|member| *member != first).collect();
        self.withdraw_at(&others, claim).await;
        if votes.granted.iter().any(|(member, _)| *member == first) {
            // It heads this line and gets no majority: somebody else heads the others.
            self.withdraw_at(&[first], claim).await;
            tokio::time::sleep(random_pause(SPLIT_PAUSES[2])).await;
            let mut again = self.fan_out.claim_at(&[first], claim, member_limit(claim.ttl));
            again.next().await;
        }
        let ahead = votes.queued.iter().find(|(member, _)| *member == first).map_or(1, |(_, ahead)| *ahead);
        self.waits_at.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.id, first);
        Standing::Queued { ahead }
    }

    async fn withdraw_at(&self, members: &[usize], claim: &Claim) {
        let mut answers = self.fan_out.withdraw_at(members, claim, member_limit(claim.ttl));
        while answers.next().await.is_some() {}
    }
}

/// Forgets with which member a claim waits when it sleeps no more, however that comes.
struct Asleep<'a>(&'a Quorum, ClaimId);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.waits_at.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

#[async_trait]
impl Engine for Quorum {
    fn guarantees(&self) -> Guarantees {
        let members: Vec<Guarantees> = self.fan_out.members().iter().map(|member| member.guarantees()).collect();
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
            wake_up: members.iter().map(|member| member.wake_up).min().unwrap_or(crate::guarantees::WakeUp::Poll),
            crash_frees: CrashFrees::AfterLease(lease),
            outlives_process: members.iter().all(|member| member.outlives_process),
            min_ttl: members
                .iter()
                .map(|member| member.min_ttl)
                .max()
                .unwrap_or_default()
                .max(Duration::from_millis(200)),
        }
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        let mut pauses = SPLIT_PAUSES.into_iter();
        loop {
            match self.round(claim).await? {
                Outcome::Granted(granted) => return self.write_back(claim, granted).await,
                Outcome::Refused => {
                    self.fan_out.refuse(claim, member_limit(claim.ttl), STRAGGLERS).await;
                    return Ok(Standing::Refused);
                }
                Outcome::Waiting(votes) => match pauses.next().filter(|_| !votes.granted.is_empty()) {
                    Some(pause) => tokio::time::sleep(random_pause(pause)).await,
                    None => return Ok(self.stay_in_line(claim, &votes).await),
                },
            }
        }
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        let member = self.waits_at.lock().unwrap_or_else(PoisonError::into_inner).get(&claim.id).copied();
        let _asleep = Asleep(self, claim.id);
        let moved = match member {
            Some(member) => self.fan_out.members()[member].moved(claim).await.is_ok(),
            None => false,
        };
        if !moved {
            tokio::time::sleep(random_pause(MEMBER_LOST)).await;
        }
        // One member's word is no grant: the others are asked.
        Ok(None)
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let (all, majority) = (self.fan_out.members().len(), self.majority());
        let limit = member_limit(claims.iter().map(|claim| claim.ttl).min().unwrap_or_default());
        let mut answers = self.fan_out.renew(claims, limit);
        let mut renewed = vec![0usize; claims.len()];
        let mut gone = vec![0usize; claims.len()];
        while let Some((_, answer)) = answers.next().await {
            for (at, renewal) in answer.into_iter().flatten().enumerate() {
                match renewal {
                    Renewal::Renewed => renewed[at] += 1,
                    Renewal::Gone => gone[at] += 1,
                    Renewal::Unknown => {}
                }
            }
            if renewed.iter().all(|renewed| *renewed >= majority) {
                break;
            }
        }
        Ok(renewed
            .into_iter()
            .zip(gone)
            .map(|(renewed, gone)| match () {
                () if renewed >= majority => Renewal::Renewed,
                () if gone > all - majority => Renewal::Gone,
                () => Renewal::Unknown,
            })
            .collect())
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let (all, majority) = (self.fan_out.members().len(), self.majority());
        let everyone: Vec<usize> = (0..all).collect();
        let mut answers = self.fan_out.withdraw_at(&everyone, claim, member_limit(claim.ttl));
        let (mut withdrawn, mut not_there) = (0, 0);
        let mut patience = None;
        while withdrawn < majority {
            let until = patience.unwrap_or_else(|| Instant::now() + LONGEST_ANSWER);
            let Ok(Some((_, answer))) = tokio::time::timeout_at(until, answers.next()).await else { break };
            withdrawn += usize::from(matches!(answer, Ok(Withdrawal::Withdrawn)));
            not_there += usize::from(matches!(answer, Ok(Withdrawal::NotThere)));
            if withdrawn + not_there >= majority {
                patience = patience.or_else(|| Some(Instant::now() + STRAGGLERS));
            }
        }
        match () {
            () if withdrawn >= majority => Ok(Withdrawal::Withdrawn),
            // A minority that knew the claim is not enough to say so: a request for it may still be on its way to the
            // others.
            () if withdrawn + not_there >= majority => Ok(Withdrawal::NotThere),
            () => Err(Error::new(Kind::Unreachable, OUT_OF_REACH).unknown()),
        }
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        // A waiter is known to one member only, so the slower ones are heard too.
        let answers = self.fan_out.survey(prefix, FOR_PEOPLE);
        let surveys = answers.gather(self.majority(), STRAGGLERS * 10).await;
        let surveys = surveys.ok_or_else(|| Error::new(Kind::Unreachable, OUT_OF_REACH))?;
        Ok(merge(surveys, self.majority()))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let answers = self.fan_out.evict(name, claim, FOR_PEOPLE);
        let answered = answers.gather(self.majority(), STRAGGLERS * 10).await;
        let answered = answered.ok_or_else(|| Error::new(Kind::Unreachable, OUT_OF_REACH).unknown())?;
        Ok(answered.contains(&true))
    }

    async fn read(&self, _name: &Name) -> Result<Cell> {
        Err(no_cells())
    }

    async fn write(&self, _name: &Name, _write: &Write) -> Result<Written> {
        Err(no_cells())
    }
}

fn no_cells() -> Error {
    Error::new(Kind::Unsupported, "a quorum has no cells: independent members have no common order of writes")
        .help("keep cells on one engine")
}

/// One picture of what several members see: a claim holds when a majority says so.
fn merge(surveys: Vec<Vec<Line>>, majority: usize) -> Vec<Line> {
    let mut lines: std::collections::BTreeMap<Name, (u32, Vec<Place>)> = std::collections::BTreeMap::new();
    let mut grants: HashMap<(Name, PublicId), usize> = HashMap::new();
    for line in surveys.into_iter().flatten() {
        let (_, places) = lines.entry(line.name.clone()).or_insert((line.capacity, Vec::new()));
        for place in line.places {
            *grants.entry((line.name.clone(), place.id)).or_default() += usize::from(place.token.is_some());
            match places.iter_mut().find(|known| known.id == place.id) {
                Some(known) => known.token = known.token.max(place.token),
                None => places.push(place),
            }
        }
    }
    let merged = lines.into_iter().map(|(name, (capacity, mut places))| {
        for place in &mut places {
            let holds = grants.get(&(name.clone(), place.id)).is_some_and(|grants| *grants >= majority);
            place.token = place.token.filter(|_| holds);
        }
        places.sort_by_key(|place| place.token.is_none());
        Line { name, capacity, places }
    });
    merged.collect()
}
