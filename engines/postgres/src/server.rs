//! One side of a client at one server: its connections, and the verbs about claims.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{
    Claim, Clock, ClockWatch, Error, Kind, Moment, Name, Notices, Patience, PublicId, Renewal, Result, Side, Standing,
    Withdrawal,
};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use crate::chores::Chores;
use crate::dial::Dial;
use crate::error::{Fault, explain};
use crate::gate::Gates;
use crate::hold::Hold;
use crate::listener::Listener;
use crate::pool::{Pool, Value};
use crate::said::{Said, micros};
use crate::tables::{Statements, Tables};
use crate::way::{Left, Turn};

/// A request that is about no lease is given up after this, and so is one about a long lease.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
/// The shortest time a request is given.
const IMPATIENCE: Duration = Duration::from_millis(50);
/// A claim that somebody else was changing is renewed again after this, twice as long each time, and so often.
const SKIPPED: (Duration, u32) = (Duration::from_millis(2), 5);

/// One side of a client at one server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) pool: Arc<Pool>,
    pub(crate) tables: Tables,
    pub(crate) statements: Arc<Statements>,
    pub(crate) listener: Listener,
    notices: Arc<Notices>,
    gates: Gates,
    kept: Arc<ClockWatch>,
    chores: Option<Chores>,
    name: String,
}

/// What a side of a client is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) side: Side,
    pub(crate) hold: Hold,
    pub(crate) dial: Dial,
    pub(crate) channel: String,
    pub(crate) tables: Tables,
    pub(crate) kept: Arc<ClockWatch>,
    pub(crate) name: String,
}

impl Server {
    /// A side of a client. Nothing is sent yet.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { side, hold, dial, channel, tables, kept, name } = parts;
        let statements = Arc::new(Statements::about(&tables, hold));
        // With the one that listens, and those that hold, eight at most for each client.
        let front = if hold == Hold::Lease { 5 } else { 3 };
        let (most, keeps) = if side == Side::Keeper { (2, true) } else { (front, false) };
        let notices = Arc::new(Notices::default());
        let pool = Arc::new(Pool::new(dial.clone(), most, statements.warm.clone()));
        let chores = keeps.then(|| Chores::begin(Arc::clone(&pool), Arc::clone(&statements)));
        let listener = Listener::new(dial, channel, Arc::clone(&notices));
        Self { pool, tables, statements, listener, notices, gates: Gates::default(), kept, chores, name }
    }

    pub(crate) fn explain(&self, fault: Fault) -> Error {
        explain(fault, &self.name)
    }

    /// Sends a statement that gives one row.
    pub(crate) async fn one(&self, statement: &str, values: &[Value<'_>], limit: Duration) -> Result<Row, Fault> {
        let rows = self.pool.ask(statement, values, limit).await?;
        rows.into_iter().next().ok_or_else(|| Fault::Answer("it has no row".into()))
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Standing, Fault> {
        let patience: i16 = match claim.patience {
            Patience::None => 0,
            Patience::Waits => 1,
            Patience::Barges => 2,
        };
        let said = self.said(claim)?;
        let values: Vec<Value<'_>> = said.values().into_iter().chain([(&patience as _, Type::INT2)]).collect();
        let sent = Clock::Boot.now();
        let limit = patience_for(claim.ttl * 3 / 4);
        let until = Instant::now() + limit;
        let _gate = timeout_at(until, self.gates.pass(&claim.name)).await.map_err(|_| Fault::NoConnection(limit))?;
        let row = self.one(&self.statements.claim, &values, until.duration_since(Instant::now())).await?;
        self.kept.observe("", get::<i64>(&row, 4)?.unsigned_abs(), sent);
        let standing = self.stands(claim, &row, sent)?;
        self.kept.claimed(claim, standing);
        Ok(standing)
    }

    /// What a claim of this side says of itself.
    pub(crate) fn said(&self, claim: &Claim) -> Result<Said> {
        Said::by(claim, self.listener.channel())
    }

    /// Takes note of a claim that has got its turn together with its bolt: its token.
    pub(crate) fn entered(&self, claim: &Claim, turn: Turn, sent: Moment) -> u64 {
        let token = turn.token.unsigned_abs();
        self.kept.observe("", turn.micros.unsigned_abs(), sent);
        self.kept.claimed(claim, Standing::Granted { token });
        token
    }

    /// What the server says about a claim: where it stands, or that it makes no sense.
    fn stands(&self, claim: &Claim, row: &Row, sent: Moment) -> Result<Standing, Fault> {
        let number = || get::<i64>(row, 1).map(i64::unsigned_abs);
        match get::<i16>(row, 0)? {
            0 => Ok(Standing::Granted { token: number()? }),
            1 => {
                let left = get::<Option<i64>>(row, 3)?.map(|left| Duration::from_micros(left.max(0).unsigned_abs()));
                let pause = pause(get::<i64>(row, 2)?.unsigned_abs(), left);
                let ask_at = pause.map_or(Moment::NEVER, |pause| Clock::Boot.now() + pause);
                self.notices.queued(claim.id, sent, ask_at);
                Ok(Standing::Queued { ahead: u32::try_from(number()?).unwrap_or(u32::MAX) })
            }
            2 => Ok(Standing::Refused),
            3 => {
                let what = format!("the name is in use with capacity {}, not {}", number()?, claim.capacity);
                let help = "use one kind of lock, and one number of permits, for a name";
                Err(Error::new(Kind::Conflict, what).help(help).into())
            }
            4 => {
                let what = format!("the claim weighs {}, and cannot be raised to {}", number()?, claim.weight);
                Err(Error::new(Kind::Invalid, what).help("there is no upgrade: release, then lock anew").into())
            }
            other => Err(Fault::Answer(format!("{other} is no standing"))),
        }
    }

    pub(crate) async fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>, Fault> {
        let mut renewals = vec![Renewal::Unknown; claims.len()];
        let mut open: Vec<usize> = (0..claims.len()).collect();
        let (first, attempts) = SKIPPED;
        for attempt in 0..attempts {
            if attempt > 0 {
                tokio::time::sleep(first * 2_u32.pow(attempt - 1)).await;
            }
            open = match self.renew_some(claims, &open, &mut renewals).await {
                Ok(skipped) => skipped,
                // What was answered stays answered.
                Err(_) if attempt > 0 => break,
                Err(fault) => return Err(fault),
            };
            if open.is_empty() {
                break;
            }
        }
        Ok(renewals)
    }

    /// Renews these of the claims. Gives those that were skipped, because somebody was changing them.
    async fn renew_some(&self, all: &[Claim], of: &[usize], into: &mut [Renewal]) -> Result<Vec<usize>, Fault> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let claims = || of.iter().map(|at| &all[*at]);
        let sent = Clock::Boot.now();
        let names: Vec<&str> = claims().map(|claim| claim.name.as_str()).collect();
        let ids: Vec<&[u8]> = claims().map(|claim| claim.id.as_bytes().as_slice()).collect();
        let ttls: Vec<i64> = claims().map(|claim| micros(claim.ttl)).collect();
        let lingering: Vec<bool> = claims().map(|claim| claim.lingers).collect();
        let values: [Value<'_>; 4] = [
            (&names, Type::TEXT_ARRAY),
            (&ids, Type::BYTEA_ARRAY),
            (&ttls, Type::INT8_ARRAY),
            (&lingering, Type::BOOL_ARRAY),
        ];
        let shortest = claims().map(|claim| claim.ttl).min().unwrap_or(PATIENCE);
        let rows = self.pool.ask(&self.statements.renew, &values, patience_for(shortest / 3)).await?;
        let mut outcomes = vec![0; of.len()];
        for row in &rows {
            self.kept.observe("", get::<i64>(row, 2)?.unsigned_abs(), sent);
            let at = usize::try_from(get::<i64>(row, 0)? - 1).ok().filter(|at| *at < of.len());
            let at = at.ok_or_else(|| Fault::Answer("a claim that was not asked for".into()))?;
            match get::<i16>(row, 1)? {
                // Nobody else may come by to see that a holder's lease is over.
                3 => self.chores.iter().for_each(|chores| chores.tidy(&all[of[at]].name)),
                outcome if outcomes[at] != 1 => outcomes[at] = outcome,
                _ => {}
            }
        }
        let mut skipped = Vec::new();
        for (at, outcome) in of.iter().zip(outcomes) {
            match outcome {
                1 => into[*at] = self.kept.renewed(&all[*at], Renewal::Renewed),
                2 => skipped.push(*at),
                _ => into[*at] = self.kept.renewed(&all[*at], Renewal::Gone),
            }
        }
        Ok(skipped)
    }

    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal, Fault> {
        let sent = Clock::Boot.now();
        let values: [Value<'_>; 2] =
            [(&claim.name.as_str(), Type::TEXT), (&claim.id.as_bytes().as_slice(), Type::BYTEA)];
        // It passes by all who want to get in: they wait for it.
        let row = self.one(&self.statements.withdraw, &values, patience_for(claim.ttl * 3 / 4)).await?;
        Ok(self.left(claim, Left { was_there: get(&row, 0)?, micros: get(&row, 1)? }, sent))
    }

    /// Takes note of a claim that has left the line.
    pub(crate) fn left(&self, claim: &Claim, left: Left, sent: Moment) -> Withdrawal {
        self.kept.observe("", left.micros.unsigned_abs(), sent);
        self.kept.withdrawn(&claim.id);
        if left.was_there { Withdrawal::Withdrawn } else { Withdrawal::NotThere }
    }

    pub(crate) async fn evict(&self, name: &Name, claim: &PublicId) -> Result<bool, Fault> {
        let (first, last) = ids(claim);
        let values: [Value<'_>; 3] =
            [(&name.as_str(), Type::TEXT), (&first.as_slice(), Type::BYTEA), (&last.as_slice(), Type::BYTEA)];
        get(&self.one(&self.statements.evict, &values, PATIENCE).await?, 0)
    }

    pub(crate) async fn moved(&self, claim: &Claim) -> Result<Option<Standing>, Fault> {
        let mut registration = self.notices.register(claim.id);
        if self.listener.listens_since().await? > registration.asked_at() {
            // Its turn may have come before anybody listened.
            return Ok(None);
        }
        Ok(registration.told().await)
    }
}

/// One column of a row.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, Fault> {
    row.try_get(column).map_err(|error| Fault::Answer(error.to_string()))
}

/// When a waiter asks although it is told nothing; `None` when the client's own poll is enough.
///
/// A crashed holder tells nobody, so the first in line look when its lease must be over, one after the other.
fn pause(waiters_ahead: u64, left: Option<Duration>) -> Option<Duration> {
    const LOOKERS: u64 = 8;
    const APART: Duration = Duration::from_millis(25);
    let place = u32::try_from(waiters_ahead).unwrap_or(u32::MAX);
    left.filter(|_| waiters_ahead < LOOKERS).map(|left| left + Duration::from_millis(1) + APART * place)
}

/// How long an answer is waited for when there is this much time.
pub(crate) fn patience_for(time: Duration) -> Duration {
    time.clamp(IMPATIENCE, PATIENCE)
}

/// The first and the last id that people call by this one.
fn ids(public: &PublicId) -> ([u8; 16], [u8; 16]) {
    let digits = u64::from_str_radix(&public.to_string(), 16).unwrap_or(0);
    [0, 0xff]
        .map(|with| {
            let mut id = [with; 16];
            id[..6].copy_from_slice(&digits.to_be_bytes()[2..]);
            id
        })
        .into()
}

#[cfg(test)]
mod tests {
    use lockhouse_core::ClaimId;

    use super::*;

    #[test]
    fn the_first_in_line_look_when_the_lease_is_over_and_the_others_do_not() {
        let left = Some(Duration::from_secs(3));
        assert_eq!(pause(0, left), Some(Duration::from_millis(3001)));
        assert!(pause(1, left) > pause(0, left));
        assert_eq!(pause(8, left), None);
        assert_eq!(pause(0, None), None);
    }

    #[test]
    fn a_public_id_covers_exactly_its_claims() {
        let id = ClaimId::random();
        let (first, last) = ids(&id.public());
        assert!(first <= *id.as_bytes() && *id.as_bytes() <= last);
        assert_eq!(ClaimId::from_bytes(first).public(), id.public());
        assert_eq!(ClaimId::from_bytes(last).public(), id.public());
    }
}
