//! The verbs about claims.

use std::collections::HashMap;

use lockhouse_core::{Claim, ClaimId, Error, Kind, Name, Patience, PublicId, Renewal, Standing, Withdrawal};

use crate::error::Fault;
use crate::line::{HOLDS, Line, Numbers, OUT, Own, WAITS, WINDOW, agree, id, turn};
use crate::pool::{Request, Session, column, set};
use crate::sole::Sole;
use crate::statement::{Batch, Tables, Value, sql};

/// The longest owner that is stored, in characters.
const LONGEST_OWNER: usize = 255;
/// The longest note that is stored, in characters: so that 64 KiB are enough for any.
const LONGEST_NOTE: usize = 10_000;

/// `claim`: what comes back is where it stands, or why it makes no sense.
#[derive(Debug)]
pub(crate) struct Claiming<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) claim: &'a Claim,
    /// It is known to be in line, so there is no use in trying the short way.
    pub(crate) in_line: bool,
    /// What this client gave back last, if the lock's row may not say so yet.
    pub(crate) before: Option<ClaimId>,
}

impl Request for Claiming<'_> {
    type Answer = Result<Standing, Error>;

    const WAITS: bool = true;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Self::Answer, Fault> {
        if !self.in_line
            && let Some(token) = self.take(session).await?
        {
            return Ok(Ok(Standing::Granted { token }));
        }
        self.the_long_way(session).await
    }
}

impl Claiming<'_> {
    /// Takes a lock that nobody has. `None` when somebody is there, or the lock's row is not.
    async fn take(&self, session: &mut Session<'_>) -> Result<Option<u64>, Fault> {
        let (take, values) = (sql!("take"), taking(self.claim, self.before));
        let taken = if session.wants_time() {
            let mut sets = session.write(&(self.tables.write(take, &values) + sql!("time"))).await?;
            if let Some(time) = set(&sets, 1)?.rows.first() {
                session.learn_time(time, 0)?;
            }
            sets.swap_remove(0)
        } else {
            session.execute(self.tables, take, &values).await?
        };
        Ok(taken.number.filter(|_| taken.changed == 1))
    }

    async fn create_lock(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        let create = self.tables.write(sql!("create_lock"), &self.only(&[]));
        session.write(&format!("ROLLBACK; {create}")).await.map(drop)
    }

    /// Somebody is there: the line is looked at and decided upon here, while its gate is ours.
    async fn the_long_way(&self, session: &mut Session<'_>) -> Result<Result<Standing, Error>, Fault> {
        if self.claim.patience == Patience::None
            && let Some(answer) = self.peek(session).await?
        {
            return Ok(answer);
        }
        let [crowd, lock] = [sql!("crowd"), sql!("lock")].map(|part| self.tables.write(part, &self.only(&[])));
        let look = self.tables.write(sql!("look"), &self.values(&[("window", Value::number(WINDOW as u64))]));
        loop {
            let sets = session.look(&format!("{crowd}{lock}{look}")).await?;
            let (gate, row) = (set(&sets, 6)?.rows.first(), set(&sets, 7)?.rows.first());
            match row.filter(|_| gate.is_some()) {
                None => self.create_lock(session).await?,
                Some(row) => {
                    session.learn_time(row, 1)?;
                    if column(row, 2)? {
                        let (line, numbers) = (Line::read(&sets, 8)?, Numbers::new(column(row, 0)?));
                        return self.put_in_order(session, line, numbers, &look).await;
                    }
                    // Somebody took the lock alone just before the gate was ours.
                    session.look("ROLLBACK").await?;
                }
            }
            if !self.in_line
                && let Some(token) = self.take(session).await?
            {
                return Ok(Ok(Standing::Granted { token }));
            }
        }
    }

    /// What a claim hears that would not wait, when another has the lock alone. It disturbs nobody.
    async fn peek(&self, session: &mut Session<'_>) -> Result<Option<Result<Standing, Error>>, Fault> {
        let sets = session.look(&self.tables.write(sql!("peek"), &self.only(&[]))).await?;
        let sole = set(&sets, 0)?.rows.first().map(Sole::read).transpose()?;
        Ok(sole.and_then(|sole| sole.turns_away(self.claim)))
    }

    /// Removes who is over and lets in who is next, and then decides about the claim.
    async fn put_in_order(
        &self,
        session: &mut Session<'_>,
        mut line: Line,
        mut numbers: Numbers,
        look: &str,
    ) -> Result<Result<Standing, Error>, Fault> {
        let Self { tables, claim, .. } = self;
        let mut todo = Batch::default();
        loop {
            if let Some(ids) = line.over() {
                todo.push(tables.write(sql!("expire_holders"), &self.only(&[("ids", ids)])));
            } else {
                if line.own.as_ref().is_some_and(|own| own.takes(claim)) {
                    line.lighten(claim.id, claim.weight);
                    numbers.keep_above(claim.floor);
                }
                if !line.settle(claim.id, &mut numbers, tables, &mut todo) {
                    break;
                }
            }
            // What was done so far is part of what is looked at next.
            let Batch { text, statements } = std::mem::take(&mut todo);
            let sets = session.look(&format!("{text}{look}")).await?;
            line = Line::read(&sets, statements)?;
        }
        self.decide(session, line, numbers, todo).await
    }

    /// The line is in order. Finds out where the claim stands, and commits.
    async fn decide(
        &self,
        session: &mut Session<'_>,
        line: Line,
        mut numbers: Numbers,
        mut todo: Batch,
    ) -> Result<Result<Standing, Error>, Fault> {
        let Self { tables, claim, .. } = self;
        let (own, mut alone) = (line.own.as_ref(), None);
        let placed = match own {
            Some(own) if own.lives => self.again(own, &mut numbers, &mut todo),
            _ => {
                if own.is_some() {
                    // It is out of the line, and whoever was behind it comes first.
                    todo.push(tables.write(sql!("remove"), &self.values(&[])));
                }
                alone = line.is_deserted().then_some(todo.statements);
                line.agrees(claim).map(|()| self.join(&line, &mut numbers, &mut todo))
            }
        };
        if let Some(newest) = numbers.changed() {
            todo.push(tables.write(sql!("count"), &self.values(&[("newest", Value::number(newest))])));
        }
        todo.push("COMMIT;".into());
        let ahead_at = todo.statements;
        if let Ok(Placed::Queued { turn, arrived }) = placed {
            // Counting may take some time, and the gate is open by then.
            let place = [("turn", Value::number(turn)), ("arrived", Value::number(arrived))];
            todo.push(tables.write(sql!("ahead"), &self.only(&place)));
        }
        let sets = session.write(&todo.text).await?;
        if let (Some(at), Ok(Placed::Granted(_))) = (alone, &placed)
            && set(&sets, at)?.changed != 1
        {
            return Err(Fault::Answer("the lock's row was removed while it was taken".into()));
        }
        Ok(match placed {
            Err(error) => Err(error),
            Ok(Placed::Granted(token)) => Ok(Standing::Granted { token }),
            Ok(Placed::Refused) => Ok(Standing::Refused),
            Ok(Placed::Queued { .. }) => {
                let row = set(&sets, ahead_at)?.rows.first().ok_or_else(|| Fault::Answer("no number ahead".into()))?;
                let ahead: u64 = column(row, 0)?;
                Ok(Standing::Queued { ahead: u32::try_from(ahead).unwrap_or(u32::MAX) })
            }
        })
    }

    /// The claim is there already: its lease is renewed, and it may weigh less than before.
    fn again(&self, own: &Own, numbers: &mut Numbers, todo: &mut Batch) -> Result<Placed, Error> {
        let claim = self.claim;
        if own.state == OUT {
            return Ok(Placed::Refused);
        }
        agree(own.capacity, claim)?;
        if claim.weight > own.weight {
            let what = format!("the claim weighs {}, and cannot be raised to {}", own.weight, claim.weight);
            return Err(Error::new(Kind::Invalid, what).help("there is no upgrade: release, then lock anew"));
        }
        let token = own.token.map(|token| token.max(claim.floor));
        if own.takes(claim) {
            let values = self.values(&[("token", Value::maybe(token))]);
            todo.push(self.tables.write(sql!("again"), &values));
        }
        numbers.keep_above(claim.floor);
        Ok(match token.filter(|_| own.state == HOLDS) {
            Some(token) => Placed::Granted(token),
            None => Placed::Queued { turn: own.turn, arrived: own.arrived },
        })
    }

    /// A newcomer.
    fn join(&self, line: &Line, numbers: &mut Numbers, todo: &mut Batch) -> Placed {
        let claim = self.claim;
        let (state, arrived, token, placed) = if line.admits(claim) {
            let token = numbers.next(claim.floor);
            (HOLDS, 0, Some(token), Placed::Granted(token))
        } else if claim.patience == Patience::None {
            return Placed::Refused;
        } else {
            let arrived = numbers.next(claim.floor);
            (WAITS, arrived, None, Placed::Queued { turn: turn(claim), arrived })
        };
        let values = self.values(&[
            ("state", Value::number(state)),
            ("arrived", Value::number(arrived)),
            ("token", Value::maybe(token)),
        ]);
        let join = if line.is_deserted() { sql!("alone") } else { sql!("join") };
        todo.push(self.tables.write(join, &values));
        placed
    }

    /// What is known of the claim, and more.
    fn values<'v>(&self, more: &[(&'v str, Value)]) -> Vec<(&'v str, Value)> {
        values(self.claim, more)
    }

    /// The name, and more.
    fn only<'v>(&self, more: &[(&'v str, Value)]) -> Vec<(&'v str, Value)> {
        let mut values = vec![("name", Value::name(&self.claim.name))];
        values.extend_from_slice(more);
        values
    }
}

/// What is known of a claim, and more.
pub(crate) fn values<'v>(claim: &Claim, more: &[(&'v str, Value)]) -> Vec<(&'v str, Value)> {
    let note = claim.note.as_deref().map_or(Value::Null, |note| Value::text(note, LONGEST_NOTE));
    let mut values = vec![
        ("id", Value::id(&claim.id)),
        ("name", Value::name(&claim.name)),
        ("turn", Value::number(turn(claim))),
        ("weight", Value::number(claim.weight)),
        ("capacity", Value::number(claim.capacity)),
        ("floor", Value::number(claim.floor)),
        ("ttl", Value::lease(claim)),
        ("lingers", Value::flag(claim.lingers)),
        ("owner", Value::text(claim.owner.label(), LONGEST_OWNER)),
        ("note", note),
    ];
    values.extend_from_slice(more);
    values
}

/// What is needed to take a lock that nobody has.
pub(crate) fn taking(claim: &Claim, before: Option<ClaimId>) -> Vec<(&'static str, Value)> {
    values(claim, &[("before", before.map_or_else(|| Value::bytes(b""), |id| Value::id(&id)))])
}

/// Where a claim gets in the line.
#[derive(Debug, Clone, Copy)]
enum Placed {
    Granted(u64),
    Queued { turn: i64, arrived: u64 },
    Refused,
}

/// `withdraw`. Nobody is let in by it: whoever is next looks from time to time, and lets itself in.
#[derive(Debug)]
pub(crate) struct Withdrawing<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) claim: &'a Claim,
}

impl Request for Withdrawing<'_> {
    type Answer = Withdrawal;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Withdrawal, Fault> {
        let key = [("id", Value::id(&self.claim.id)), ("name", Value::name(&self.claim.name))];
        // A claim only ever moves from its lock's row into the line, so whoever looks there second misses none.
        for place in [sql!("give_back"), sql!("withdraw")] {
            if session.execute(self.tables, place, &key).await?.changed == 1 {
                return Ok(Withdrawal::Withdrawn);
            }
        }
        // Its lease is over: the row goes, but it was out of the line already.
        session.write(&self.tables.write(sql!("remove"), &key)).await?;
        Ok(Withdrawal::NotThere)
    }
}

/// `renew`, for some claims.
#[derive(Debug)]
pub(crate) struct Renewing<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) claims: &'a [Claim],
}

impl Request for Renewing<'_> {
    type Answer = Vec<Renewal>;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Vec<Renewal>, Fault> {
        // Claims with the same lease are one statement, and most have the same.
        let mut kinds: Vec<(&Claim, Vec<&Claim>)> = Vec::new();
        for claim in self.claims {
            match kinds.iter_mut().find(|(like, _)| (like.ttl, like.lingers) == (claim.ttl, claim.lingers)) {
                Some((_, some)) => some.push(claim),
                None => kinds.push((claim, vec![claim])),
            }
        }
        let mut text = self.tables.write(sql!("renewing"), &[]);
        for (like, claims) in &kinds {
            let names = Value::list(claims.iter().map(|claim| Value::name(&claim.name)));
            let ids = Value::list(claims.iter().map(|claim| Value::id(&claim.id)));
            // A variable has no type of its own.
            let now = Value::expression("CAST(@lockhouse_now AS DATETIME(6))");
            let (ttl, lingers) = (Value::lease(like), Value::flag(like.lingers));
            let values = [("names", names), ("ids", ids), ("now", now), ("ttl", ttl), ("lingers", lingers)];
            text.push_str(&self.tables.write(sql!("renew"), &values));
        }
        text.push_str("COMMIT");
        let sets = session.write(&text).await?;
        let time = set(&sets, 2)?.rows.first().ok_or_else(|| Fault::Answer("it does not say when".into()))?;
        session.learn_time(time, 0)?;
        let mut honoured: HashMap<ClaimId, bool> = HashMap::new();
        for kind in 0..kinds.len() {
            for row in &set(&sets, 6 + 4 * kind)?.rows {
                honoured.insert(id(row, 0)?, column(row, 1)?);
            }
        }
        let renewal = |claim: &Claim| match honoured.get(&claim.id) {
            Some(true) => Renewal::Renewed,
            Some(false) => Renewal::Unknown,
            None => Renewal::Gone,
        };
        Ok(self.claims.iter().map(renewal).collect())
    }
}

/// `evict`.
#[derive(Debug)]
pub(crate) struct Evicting<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) name: &'a Name,
    pub(crate) claim: &'a PublicId,
}

impl Request for Evicting<'_> {
    type Answer = bool;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<bool, Fault> {
        let (first, last) = ids(self.claim);
        let key = [("name", Value::name(self.name)), ("first", Value::id(&first)), ("last", Value::id(&last))];
        let sets = session.write(&self.tables.write(sql!("evict"), &key)).await?;
        if set(&sets, 0)?.rows.first().map_or(Ok(false), |row| column(row, 0))? {
            return Ok(false);
        }
        if set(&sets, 1)?.changed + set(&sets, 2)?.changed > 0 {
            return Ok(true);
        }
        // A holder that was evicted before is not changed, and is there all the same.
        let sets = session.look(&self.tables.write(sql!("evicted"), &key)).await?;
        set(&sets, 0)?.rows.first().map_or(Ok(false), |row| column(row, 0))
    }
}

/// The first and the last id that people call by this one.
fn ids(public: &PublicId) -> (ClaimId, ClaimId) {
    let digits = u64::from_str_radix(&public.to_string(), 16).unwrap_or(0);
    let filled = |with: u8| {
        let mut id = [with; 16];
        id[..6].copy_from_slice(&digits.to_be_bytes()[2..]);
        ClaimId::from_bytes(id)
    };
    (filled(0), filled(0xff))
}

/// What no engine can make sense of.
pub(crate) fn check(claim: &Claim) -> Result<(), Error> {
    let invalid = |what: String, help: &str| Err(Error::new(Kind::Invalid, what).help(help));
    if claim.weight == 0 || claim.weight > claim.capacity {
        let what = format!("a weight of {} never fits into a capacity of {}", claim.weight, claim.capacity);
        return invalid(what, "ask for at least one permit, and for no more than there are");
    }
    if claim.ttl.is_zero() {
        return invalid("a lease of no length is over before it begins".into(), "some seconds are usual");
    }
    Ok(())
}
