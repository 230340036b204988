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
//! them and none get a majority. A claim therefore stands in line with one member only, the first that is not known to
//! be down; the others it asks without patience, again when its turn has come. Who is granted by a minority asks again
//! a few random moments apart. If it is still one, and not its turn, the claim is displaced: it gives everything back,
//! and a new one goes to the end of the line. It is never claimed again with a member where it was withdrawn: a
//! withdrawal that comes late would take away what was granted since.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::checkup::Checkup;
use crate::claim::{Claim, ClaimId, Patience, PublicId};
use crate::engine::{Cell, Engine, Renewal, Standing, Withdrawal, Write, Written};
use crate::error::{Error, Kind, Result};
use crate::fan_out::FanOut;
use crate::guarantees::Guarantees;
use crate::majority::{Parted, promised_by};
use crate::name::Name;
use crate::options::MAX_TTL;
use crate::picture::merge;
use crate::random;
use crate::survey::Line;
use crate::votes::{Outcome, Votes};

/// A majority of independent engines. [`Majority`](crate::Majority) connects a client to one.
#[derive(Debug)]
pub struct Quorum {
    fan_out: FanOut,
    /// With which member a claim waits: set when it is put in line, until it sleeps no more. `None` when it is its turn
    /// there, and the others are not won yet.
    waits_at: Mutex<HashMap<ClaimId, Option<usize>>>,
    /// Until when a member counts as down: others keep the places then.
    down_until: Mutex<Vec<Option<Instant>>>,
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
/// How soon a claim asks again when it waits for no member's word.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(100));
/// How often a claim whose turn it is gives up, each time it gets no majority.
const TURN_GIVEN_UP: f64 = 0.2;
/// For so long a member that did not answer is not trusted with places.
const COUNTS_AS_DOWN: Duration = Duration::from_secs(10);

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

impl Quorum {
    /// A quorum over these members. Each must be independent of the others: its own server, its own disk.
    ///
    /// # Errors
    /// [`Kind::Invalid`] unless there are at least three members, and an odd number of them.
    pub fn new(members: Vec<Arc<dyn Engine>>) -> Result<Self> {
        Self::sharing(members, Arc::default())
    }

    pub(crate) fn sharing(members: Vec<Arc<dyn Engine>>, parted: Arc<Parted>) -> Result<Self> {
        if members.len() < 3 || members.len().is_multiple_of(2) {
            let what = format!("a quorum of {} members is no safer than one with fewer", members.len());
            return Err(Error::new(Kind::Invalid, what).help("give it 3, 5 or 7 independent members"));
        }
        let down_until = Mutex::new(vec![None; members.len()]);
        Ok(Self { fan_out: FanOut::new(members, parted), waits_at: Mutex::default(), down_until })
    }

    fn majority(&self) -> usize {
        self.fan_out.members().len() / 2 + 1
    }

    /// The members that are not known to be down.
    fn up(&self) -> Vec<usize> {
        let now = Instant::now();
        let down_until = self.down_until.lock().unwrap_or_else(PoisonError::into_inner);
        let up = down_until.iter().enumerate().filter(|(_, until)| until.is_none_or(|until| until <= now));
        up.map(|(member, _)| member).collect()
    }

    /// The member that keeps the places of waiters: the first that is not known to be down.
    fn first(&self) -> usize {
        self.up().first().copied().unwrap_or(0)
    }

    fn note(&self, member: usize, answers: bool) {
        let mut down_until = self.down_until.lock().unwrap_or_else(PoisonError::into_inner);
        down_until[member] = (!answers).then(|| Instant::now() + COUNTS_AS_DOWN);
    }

    /// One round: the claim to every member, until the votes decide.
    async fn round(&self, claim: &Claim, first: usize) -> Result<Outcome> {
        let (all, majority) = (self.fan_out.members().len(), self.majority());
        let mut answers = self.fan_out.claim(claim, first, member_limit(claim.ttl));
        let mut votes = Votes::default();
        let mut waiting_for: Vec<usize> = (0..all).collect();
        // Those that are known to be down are asked, and decide nothing unless they answer.
        let up = self.up();
        let started = Instant::now();
        let mut enough = None;
        while !waiting_for.is_empty() {
            // Who waits hears of the slower ones too: a grant by one of them would otherwise stay unknown, and in the
            // way. They get as much time again as the others took, so that one that hangs costs little.
            let patience = enough.unwrap_or(started + LONGEST_ANSWER);
            let Ok(Some((member, answer))) = tokio::time::timeout_at(patience, answers.next()).await else { break };
            waiting_for.retain(|waiting| *waiting != member);
            self.note(member, answer.is_ok());
            match answer {
                Ok(Standing::Granted { token }) => votes.granted.push((member, token)),
                Ok(Standing::Queued { ahead }) => votes.queued = Some(ahead),
                // Only an operator refuses a claim that waits.
                Ok(Standing::Refused) if member == first => return Ok(Outcome::Refused),
                Ok(Standing::Refused | Standing::Displaced) => votes.refused += 1,
                Err(error) if matches!(error.kind(), Kind::Conflict | Kind::Invalid) => return Err(error),
                Err(error) => votes.error = Some(error),
            }
            if votes.granted.len() >= majority {
                return Ok(Outcome::Granted(votes.granted));
            }
            let reached = votes.granted.len() + votes.refused + usize::from(votes.queued.is_some());
            let hopes = waiting_for.iter().filter(|member| up.contains(member)).count();
            if votes.granted.len() + hopes < majority && reached >= majority {
                if claim.patience == Patience::None {
                    return Ok(Outcome::Refused);
                }
                enough = enough.or_else(|| Some(Instant::now() + started.elapsed() + STRAGGLERS));
            }
        }
        waiting_for.into_iter().for_each(|member| self.note(member, false));
        if enough.is_some() {
            let has_place = votes.queued.is_some() || votes.granted.iter().any(|(member, _)| *member == first);
            return Ok(if has_place { Outcome::Waiting(votes) } else { Outcome::NoPlace });
        }
        Err(votes.error.map_or_else(
            || Error::new(Kind::Unreachable, "too few members answered").unknown(),
            |error| Error::new(Kind::Unreachable, OUT_OF_REACH).unknown().because(error),
        ))
    }

    /// The grant counts when a majority has its token.
    async fn write_back(&self, claim: &Claim, granted: Vec<(usize, u64)>) -> Result<Standing> {
        let parted = self.fan_out.parted();
        let token = match claim.floor {
            // Asked for again: a member that came late must not change it.
            0 => parted.token(&claim.id).or_else(|| granted.iter().map(|(_, token)| *token).max()).unwrap_or(0),
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
            parted.granted(claim.id, token);
            return Ok(Standing::Granted { token });
        }
        Err(Error::new(Kind::Unreachable, "the token could not be written back to a majority").unknown())
    }

    /// A claim that was woken asks where it waits before it asks everybody: the others are not its concern before its
    /// turn. Says how many are ahead if it is not.
    async fn still_waits(&self, claim: &Claim) -> Option<u32> {
        let first = self.waits_at.lock().unwrap_or_else(PoisonError::into_inner).remove(&claim.id).flatten()?;
        let (_, answer) = self.fan_out.claim_first(claim, first, member_limit(claim.ttl)).next().await?;
        let Ok(Standing::Queued { ahead }) = answer else { return None };
        self.waits_at.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.id, Some(first));
        Some(ahead)
    }

    /// What becomes of a claim that gets no majority.
    async fn wait_or_go(&self, claim: &Claim, votes: &Votes, first: usize) -> Standing {
        let wait_at = |member| {
            self.waits_at.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.id, member);
        };
        match votes.queued {
            Some(ahead) if votes.granted.is_empty() => {
                wait_at(Some(first));
                return Standing::Queued { ahead };
            }
            // It is its turn here: those who are in the way elsewhere go. Now and then it goes itself, in case somebody
            // waits in the same way with another member.
            None if random::fraction() > TURN_GIVEN_UP => {
                wait_at(None);
                return Standing::Queued { ahead: 1 };
            }
            _ => {}
        }
        self.fan_out.refuse(claim, member_limit(claim.ttl), STRAGGLERS).await;
        tokio::time::sleep(random_pause(SPLIT_PAUSES[2])).await;
        Standing::Displaced
    }
}

/// Forgets with which member a claim waits when it sleeps no more, however that comes; unless it was woken there, and
/// asks again at once.
struct Asleep<'a> {
    quorum: &'a Quorum,
    id: ClaimId,
    woken: bool,
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        if !self.woken {
            self.quorum.waits_at.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        }
    }
}

#[async_trait]
impl Engine for Quorum {
    fn guarantees(&self) -> Guarantees {
        promised_by(self.fan_out.members())
    }

    fn longest_lease(&self) -> Duration {
        self.fan_out.members().iter().map(|member| member.longest_lease()).min().unwrap_or(MAX_TTL)
    }

    async fn claim(&self, claim: &Claim) -> Result<Standing> {
        if let Some(ahead) = self.still_waits(claim).await {
            return Ok(Standing::Queued { ahead });
        }
        let mut pauses = SPLIT_PAUSES.into_iter();
        loop {
            let first = self.first();
            match self.round(claim, first).await? {
                Outcome::Granted(granted) => return self.write_back(claim, granted).await,
                Outcome::Refused => {
                    self.fan_out.refuse(claim, member_limit(claim.ttl), STRAGGLERS).await;
                    return Ok(Standing::Refused);
                }
                // Another one keeps the places from now on.
                Outcome::NoPlace => {}
                // Where it is not its turn, what it was granted elsewhere is in somebody's way.
                Outcome::Waiting(votes) => match pauses.next().filter(|_| votes.queued.is_none()) {
                    Some(pause) => tokio::time::sleep(random_pause(pause)).await,
                    None => return Ok(self.wait_or_go(claim, &votes, first).await),
                },
            }
        }
    }

    async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        let member = self.waits_at.lock().unwrap_or_else(PoisonError::into_inner).get(&claim.id).copied().flatten();
        let mut asleep = Asleep { quorum: self, id: claim.id, woken: false };
        match member {
            Some(member) => asleep.woken = self.fan_out.members()[member].moved(claim).await.is_ok(),
            None => tokio::time::sleep(random_pause(ASK_AGAIN)).await,
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
                // Who waits is known to one member only: that is renewed there, and is no loss.
                () if gone > all - majority && renewed == 0 => Renewal::Gone,
                () => Renewal::Unknown,
            })
            .collect())
    }

    async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        self.waits_at.lock().unwrap_or_else(PoisonError::into_inner).remove(&claim.id);
        let majority = self.majority();
        let mut answers = self.fan_out.withdraw(claim, member_limit(claim.ttl));
        let (mut withdrawn, mut not_there) = (0, 0);
        // The slower ones are heard too, so that nothing is seen of the claim any more; not those known to be down.
        let mut missing = self.up();
        let started = Instant::now();
        let mut patience = started + LONGEST_ANSWER;
        while withdrawn < majority || !missing.is_empty() {
            let Ok(Some((member, answer))) = tokio::time::timeout_at(patience, answers.next()).await else { break };
            missing.retain(|missing| *missing != member);
            self.note(member, answer.is_ok());
            withdrawn += usize::from(matches!(answer, Ok(Withdrawal::Withdrawn)));
            not_there += usize::from(matches!(answer, Ok(Withdrawal::NotThere)));
            let undecided = withdrawn < majority && withdrawn + missing.len() >= majority;
            if withdrawn + not_there >= majority && !undecided {
                patience = patience.min(Instant::now() + started.elapsed() + STRAGGLERS);
            }
        }
        missing.into_iter().for_each(|member| self.note(member, false));
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

    async fn checkup(&self) -> Result<Checkup> {
        let members = self.fan_out.checkup(FOR_PEOPLE).all().await;
        Ok(Checkup::of_members(members, self.majority()))
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
