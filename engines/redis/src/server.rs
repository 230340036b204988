//! One side of a client at one server: its connection, and the verbs about claims.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{
    Claim, Clock, ClockWatch, Error, Kind, Moment, Name, Notices, Patience, PublicId, Renewal, Result, Standing,
    Withdrawal,
};
use rand::Rng;
use redis::{Value, cmd};

use crate::answer::Answer;
use crate::call::Call;
use crate::error::{Fault, explain};
use crate::keys::Keys;
use crate::link::{Link, Live};
use crate::route::Route;
use crate::scripts::{CLAIM, EVICT, Prepared, RENEW, WITHDRAW};

/// So many leases are renewed by one call of the script: the server does nothing else meanwhile.
const RENEWALS_AT_ONCE: usize = 250;
/// A request that is about no lease is given up after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// The shortest time a request is given.
const IMPATIENCE: Duration = Duration::from_millis(50);
/// The token of a grant is a number that Lua can count with.
const LARGEST_FLOOR: u64 = 1 << 53;

/// One side of a client at one server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) link: Link,
    pub(crate) notices: Arc<Notices>,
    pub(crate) keys: Keys,
    kept: Arc<ClockWatch>,
    pub(crate) name: String,
    /// It is one of several that vote.
    votes: bool,
    /// So many replicas must have acknowledged a grant.
    pub(crate) replicas: u32,
}

impl Server {
    /// A side of a client. Nothing is sent yet.
    pub(crate) fn new(route: Route, keys: Keys, kept: Arc<ClockWatch>) -> Self {
        let notices = Arc::new(Notices::default());
        let name = route.to_string();
        let link = Link::new(route, keys.channel(rand::random()), Arc::clone(&notices));
        Self { link, notices, keys, kept, name, votes: false, replicas: 0 }
    }

    /// A grant and a renewal count when so many replicas have them.
    pub(crate) fn replicas(self, replicas: u32) -> Self {
        Self { replicas, ..self }
    }

    /// One of several that vote: as long as a lock from before its start may be held, it votes against.
    pub(crate) fn voting(self) -> Self {
        Self { votes: true, ..self }
    }

    /// Makes sure that the server answers.
    pub(crate) async fn greet(&self) -> Result<()> {
        let sent = Clock::Boot.now();
        let heard = self.link.ask(|_| cmd("TIME"), PATIENCE).await.map_err(|fault| self.explain(fault))?;
        let read = |value| {
            let mut time = Answer::new(value)?;
            Ok(time.count()? * 1_000_000 + time.count()?)
        };
        let micros = read(heard.value).map_err(|fault| self.explain(fault))?;
        self.kept.observe(&heard.on.life.run_id, micros, sent);
        Ok(())
    }

    pub(crate) fn explain(&self, fault: Fault) -> Error {
        explain(fault, &self.name)
    }

    /// Runs a script that answers with the server's time first. Also says on which connection.
    async fn run_on(&self, script: &Prepared, call: &Call, limit: Duration) -> Result<(Answer, Arc<Live>)> {
        let sent = Clock::Boot.now();
        let heard = script.run(&self.link, call, limit).await.map_err(|fault| self.explain(fault))?;
        let read = |value: Value| {
            let mut answer = Answer::new(value)?;
            let micros = answer.count()?;
            Ok((micros, answer))
        };
        let (micros, answer) = read(heard.value).map_err(|fault| self.explain(fault))?;
        self.kept.observe(&heard.on.life.run_id, micros, sent);
        Ok((answer, heard.on))
    }

    async fn run(&self, script: &Prepared, call: &Call, limit: Duration) -> Result<Answer> {
        self.run_on(script, call, limit).await.map(|(answer, _)| answer)
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Standing> {
        check(claim)?;
        let patience = match claim.patience {
            Patience::None => "0",
            Patience::Waits => "1",
            Patience::Barges => "2",
        };
        let call = Call::new()
            .line(&self.keys.line(&claim.name))
            .key(self.keys.counter(&claim.name))
            .show(Hex(claim))
            .show(claim.capacity)
            .show(claim.weight)
            .show(claim.priority)
            .text(patience)
            .show(millis(claim.ttl))
            .show(claim.floor)
            .flag(claim.lingers)
            .text(self.link.channel())
            .text(&about(claim));
        let (mut answer, on) = self.run_on(&CLAIM, &call, patience_for(claim.ttl / 2)).await?;
        let standing = self.stands(claim, &mut answer).map_err(|fault| self.explain(fault))??;
        self.kept.claimed(claim, standing);
        if matches!(standing, Standing::Granted { .. }) {
            self.secure(claim, &on).await?;
        }
        Ok(standing)
    }

    /// What the script says about a claim: where it stands, or that it makes no sense.
    fn stands(&self, claim: &Claim, answer: &mut Answer) -> Result<Result<Standing>, Fault> {
        Ok(match answer.count()? {
            0 => Ok(Standing::Granted { token: answer.count()? }),
            1 => {
                let ahead = u32::try_from(answer.count()?).unwrap_or(u32::MAX);
                let (waiters, left, stranger) = (answer.count()?, answer.number()?, answer.count()? == 1);
                let pause = pause(waiters, u64::try_from(left).ok().map(Duration::from_millis), stranger);
                let now = Clock::Boot.now();
                self.notices.queued(claim.id, now, pause.map_or(Moment::NEVER, |pause| now + pause));
                Ok(Standing::Queued { ahead })
            }
            2 => Ok(Standing::Refused),
            3 => {
                let what = format!("the name is in use with capacity {}, not {}", answer.count()?, claim.capacity);
                let help = "use one kind of lock, and one number of permits, for a name";
                Err(Error::new(Kind::Conflict, what).help(help))
            }
            4 => {
                let what = format!("the claim weighs {}, and cannot be raised to {}", answer.count()?, claim.weight);
                Err(Error::new(Kind::Invalid, what).help("there is no upgrade: release, then lock anew"))
            }
            5 if self.votes => Ok(Standing::Refused),
            5 => {
                let left = Duration::from_millis(answer.count()?);
                let what = format!(
                    "{} was started, or took over, a moment ago: a lock from before may still be held, so nothing is \
                     given away for another {left:?}",
                    self.name
                );
                Err(Error::new(Kind::Unreachable, what).help("wait for the lock, or try again after that"))
            }
            other => return Err(Fault::Answer(format!("{other} is no standing"))),
        })
    }

    pub(crate) async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let answers = join_all(claims.chunks(RENEWALS_AT_ONCE).map(|some| self.renew_some(some))).await;
        let mut renewals = Vec::with_capacity(claims.len());
        let mut failure = None;
        for (answer, some) in answers.into_iter().zip(claims.chunks(RENEWALS_AT_ONCE)) {
            match answer {
                Ok(renewed) => renewals.extend(renewed),
                Err(error) => {
                    failure = Some(error);
                    renewals.extend(some.iter().map(|_| Renewal::Unknown));
                }
            }
        }
        match failure {
            // What was answered stays answered.
            Some(error) if renewals.iter().all(|renewal| *renewal == Renewal::Unknown) => Err(error),
            _ => Ok(renewals),
        }
    }

    async fn renew_some(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let Some(first) = claims.first() else { return Ok(Vec::new()) };
        let mut call = Call::new().key(self.keys.counter(&first.name));
        for claim in claims {
            let line = self.keys.line(&claim.name);
            call = call.line(&line).show(Hex(claim)).show(millis(claim.ttl)).flag(claim.lingers);
        }
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or(PATIENCE);
        let (mut answer, on) = self.run_on(&RENEW, &call, patience_for(shortest / 3)).await?;
        if answer.len() != claims.len() {
            return Err(self.explain(Fault::Answer(format!("{} answers to {} claims", answer.len(), claims.len()))));
        }
        let renewed = if self.has_replicas(shortest, &on).await? { Renewal::Renewed } else { Renewal::Unknown };
        let read = |claim: &Claim| {
            let renewal = if answer.count()? == 1 { renewed } else { Renewal::Gone };
            Ok(self.kept.renewed(claim, renewal))
        };
        claims.iter().map(read).collect::<Result<_, Fault>>().map_err(|fault| self.explain(fault))
    }

    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        let call = Call::new().line(&self.keys.line(&claim.name)).key(self.keys.counter(&claim.name)).show(Hex(claim));
        let mut answer = self.run(&WITHDRAW, &call, patience_for(claim.ttl / 2)).await?;
        let there = answer.count().map_err(|fault| self.explain(fault))? == 1;
        self.kept.withdrawn(&claim.id);
        Ok(if there { Withdrawal::Withdrawn } else { Withdrawal::NotThere })
    }

    pub(crate) async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool> {
        let call = Call::new().line(&self.keys.line(name)).key(self.keys.counter(name)).show(claim);
        let mut answer = self.run(&EVICT, &call, PATIENCE).await?;
        Ok(answer.count().map_err(|fault| self.explain(fault))? == 1)
    }

    pub(crate) async fn moved(&self, claim: &Claim) -> Result<Option<Standing>> {
        let mut registration = self.notices.register(claim.id);
        if !self.link.listens() {
            // Nothing would be heard. Whoever asks again makes a connection.
            return Err(Error::new(Kind::Unreachable, format!("the connection to {} broke", self.name)));
        }
        let told = registration.told().await;
        // The script that granted it ran for somebody else: whether the replicas have it, only a claim of our own says.
        Ok(told.filter(|_| self.replicas == 0))
    }
}

/// When a waiter asks although it is told nothing; `None` when the client's own poll is enough.
///
/// A crashed holder tells nobody, so the first in line look when its lease must be over, one after the other. Another
/// program's lock tells nobody at all: the first in line looks often, the others rarely, and none of them in step.
fn pause(waiters_ahead: u64, left: Option<Duration>, stranger: bool) -> Option<Duration> {
    const LOOKERS: u64 = 8;
    const APART: Duration = Duration::from_millis(25);
    const STRANGER: (Duration, Duration) = (Duration::from_millis(40), Duration::from_secs(1));
    let place = u32::try_from(waiters_ahead).unwrap_or(u32::MAX);
    if stranger {
        let (first, last) = STRANGER;
        let often = first.saturating_mul(place.saturating_add(1)).min(last);
        let jitter = rand::rng().random_range(0.5..1.0);
        return Some(often.mul_f64(jitter).min(left.unwrap_or(last)) + Duration::from_millis(1));
    }
    let looks = waiters_ahead < LOOKERS;
    left.filter(|_| looks).map(|left| left + Duration::from_millis(1) + APART * place)
}

/// How long an answer is waited for when there is this much time.
pub(crate) fn patience_for(time: Duration) -> Duration {
    time.clamp(IMPATIENCE, PATIENCE)
}

/// A lease in whole milliseconds, rounded up: shorter than asked for it must not be.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

/// The id of a claim as scripts know it: 32 digits.
struct Hex<'a>(&'a Claim);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(*self.0.id.as_bytes()))
    }
}

/// What people see: the owner's label and, on a line of its own, the note.
fn about(claim: &Claim) -> Cow<'_, str> {
    let label = claim.owner.label();
    let owner = if label.contains('\n') { label.replace('\n', " ").into() } else { Cow::Borrowed(label) };
    match &claim.note {
        Some(note) => format!("{owner}\n{note}").into(),
        None => owner,
    }
}

/// What no engine can make sense of.
fn check(claim: &Claim) -> Result<()> {
    let invalid = |what: String, help: &str| Err(Error::new(Kind::Invalid, what).help(help));
    if claim.weight == 0 || claim.weight > claim.capacity {
        let what = format!("a weight of {} never fits into a capacity of {}", claim.weight, claim.capacity);
        return invalid(what, "ask for at least one permit, and for no more than there are");
    }
    if claim.ttl.is_zero() {
        return invalid("a lease of no length is over before it begins".into(), "some seconds are usual");
    }
    if claim.floor > LARGEST_FLOOR {
        return invalid(format!("the token {} is too large for Redis", claim.floor), "2^53 is the most");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_in_line_look_when_the_lease_is_over_and_the_others_do_not() {
        let left = Some(Duration::from_secs(3));
        assert_eq!(pause(0, left, false), Some(Duration::from_millis(3001)));
        assert!(pause(1, left, false) > pause(0, left, false));
        assert_eq!(pause(8, left, false), None);
        assert_eq!(pause(0, None, false), None);
    }

    #[test]
    fn a_strangers_lock_is_looked_at_often_by_the_first_alone() {
        for _ in 0..100 {
            assert!(pause(0, None, true).unwrap() <= Duration::from_millis(41));
            assert!(pause(0, Some(Duration::from_millis(5)), true).unwrap() <= Duration::from_millis(6));
            assert!(pause(100, None, true).unwrap() >= Duration::from_millis(500));
        }
    }

    #[test]
    fn leases_are_rounded_up() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_micros(1500)), 2);
        assert_eq!(millis(Duration::from_secs(1)), 1000);
    }
}
