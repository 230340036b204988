//! A majority of independent engines: the Redlock idea, over any engine.
//!
//! Every claim goes to all members at once and is granted when a majority grants it: two majorities share a member, and
//! that member would have to grant both. A minority that is down or hangs neither fails nor slows a request: it is
//! answered as soon as a majority decides it, and what is still on its way is finished in the background.
//!
//! **Tokens.** Each member counts its own grants. The token is the highest among those that granted, and it counts only
//! when a majority has written it back: any later grant shares a member with that majority, whose counter is past it.
//!
//! **Splits.** Members may be reached in different orders, so two claims can each head some of the lines and neither
//! get a majority. A claim that is granted by a minority twice, a random moment apart, goes to the end of those lines.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::claim::{Claim, Patience, PublicId};
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
}

/// How long a claim that a minority grants waits before it asks again: long enough for a release that reaches the
/// members one after the other, random so that two such claims do not keep step.
const SPLIT_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(25));

/// What slow members get at the least to answer a claim that the others have put in line.
const STRAGGLERS: Duration = Duration::from_millis(5);
/// How long a claim waits, once one member says that it moved, for a majority to say so.
const MOVE_PAUSE: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(100));

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
    queued: Vec<u32>,
    refused: usize,
    error: Option<Error>,
}

/// What a round of votes comes to.
enum Outcome {
    Granted(Vec<(usize, u64)>),
    /// Granted by a minority.
    Split(Vec<usize>),
    Queued(u32),
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
        Ok(Self { fan_out: FanOut::new(members) })
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
            let patience = enough.unwrap_or(started + limit * 2);
            let Ok(Some((member, answer))) = tokio::time::timeout_at(patience, answers.next()).await else { break };
            match answer {
                Ok(Standing::Granted { token }) => votes.granted.push((member, token)),
                Ok(Standing::Queued { ahead }) => votes.queued.push(ahead),
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
            return Ok(self.undecided(votes));
        }
        Err(votes.error.map_or_else(
            || Error::new(Kind::Unreachable, "too few members answered").unknown(),
            |error| Error::new(Kind::Unreachable, "a majority of the members is out of reach").unknown().because(error),
        ))
    }

    fn undecided(&self, votes: Votes) -> Outcome {
        match votes {
            // An operator took a waiter out of the line.
            Votes { refused, .. } if refused >= self.majority() => Outcome::Refused,
            Votes { granted, .. } if !granted.is_empty() => {
                Outcome::Split(granted.into_iter().map(|(member, _)| member).collect())
            }
            Votes { queued, .. } => Outcome::Queued(queued.into_iter().max().unwrap_or(1)),
        }
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

    async fn withdraw_at(&self, members: &[usize], claim: &Claim) {
        let mut answers = self.fan_out.withdraw_at(members, claim, member_limit(claim.ttl));
        while answers.next().await.is_some() {}
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
        for attempt in 0.. {
            match self.round(claim).await? {
                Outcome::Granted(granted) => return self.write_back(claim, granted).await,
                Outcome::Queued(ahead) => return Ok(Standing::Queued { ahead }),
                Outcome::Refused => {
                    self.fan_out.refuse(claim, member_limit(claim.ttl)).await;
                    return Ok(Standing::Refused);
                }
                Outcome::Split(_) if attempt == 0 => {}
                Outcome::Split(members) if attempt == 1 => self.withdraw_at(&members, claim).await,
                Outcome::Split(_) => break,
            }
            tokio::time::sleep(random_pause(SPLIT_PAUSE)).await;
        }
        Ok(Standing::Queued { ahead: 1 })
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        let mut moves: FuturesUnordered<_> = self.fan_out.members().iter().map(|member| member.moved(claim)).collect();
        let mut heard = 0;
        // A release reaches the members one after the other: the first that speaks up is not worth a round, a majority
        // is. A member at which the claim stands differently from the others speaks up at once, every time.
        let pause = tokio::time::sleep(Duration::MAX);
        tokio::pin!(pause);
        while heard < self.majority() {
            tokio::select! {
                biased;
                Some(moved) = moves.next() => {
                    // A member out of reach says nothing about the claim: the others are waited for.
                    heard += usize::from(moved.is_ok());
                    if heard == 1 && moved.is_ok() {
                        pause.as_mut().reset(Instant::now() + random_pause(MOVE_PAUSE));
                    }
                }
                () = &mut pause, if heard > 0 => break,
                else => return Err(Error::new(Kind::Unreachable, "no member can be reached")),
            }
        }
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
        let everyone: Vec<usize> = (0..self.fan_out.members().len()).collect();
        let limit = member_limit(claim.ttl);
        let mut answers = self.fan_out.withdraw_at(&everyone, claim, limit);
        let (mut answered, mut without) = (0, Vec::new());
        let mut withdrawn = false;
        while answered < self.majority() {
            let Some((member, answer)) = answers.next().await else {
                return Err(Error::new(Kind::Unreachable, "a majority of the members is out of reach").unknown());
            };
            answered += usize::from(answer.is_ok());
            match answer {
                Ok(Withdrawal::Withdrawn) => withdrawn = true,
                _ => without.push(member),
            }
        }
        if withdrawn {
            self.fan_out.withdraw_stragglers(answers, without, claim, limit);
        }
        Ok(if withdrawn { Withdrawal::Withdrawn } else { Withdrawal::NotThere })
    }

    async fn survey(&self, prefix: &str) -> Result<Vec<Line>> {
        let mut answers = self.fan_out.survey(prefix, Duration::from_secs(1));
        let mut surveys = Vec::new();
        while surveys.len() < self.majority() {
            match answers.next().await {
                Some((_, answer)) => surveys.extend(answer),
                None => return Err(Error::new(Kind::Unreachable, "a majority of the members is out of reach")),
            }
        }
        Ok(merge(surveys, self.majority()))
    }

    async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let mut answers = self.fan_out.evict(name, claim, Duration::from_secs(1));
        let mut answered = Vec::new();
        while let Some((_, answer)) = answers.next().await {
            answered.extend(answer);
        }
        if answered.len() < self.majority() {
            return Err(Error::new(Kind::Unreachable, "a majority of the members is out of reach").unknown());
        }
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
