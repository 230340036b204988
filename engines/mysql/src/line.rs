//! The line of one name in a transaction that has its gate: who holds, who is next, who is let in, who is gone.

use lockhouse_core::line::Room;
use lockhouse_core::{Claim, ClaimId, Error, Kind, Patience};
use mysql_async::Row;

use crate::error::Fault;
use crate::pool::{Set, column, set};
use crate::statement::{Batch, Tables, Value, sql};

/// `claims.state`.
pub(crate) const HOLDS: u8 = 0;
/// `claims.state`.
pub(crate) const WAITS: u8 = 1;
/// `claims.state`: an operator took it out of the line.
pub(crate) const OUT: u8 = 2;

/// So many waiters are looked at in one go.
pub(crate) const WINDOW: usize = 16;

/// The claim that asks, as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub(crate) state: u8,
    pub(crate) turn: i64,
    pub(crate) arrived: u64,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) token: Option<u64>,
    pub(crate) lives: bool,
    pub(crate) evicted: bool,
    pub(crate) lingers: bool,
}

impl Own {
    /// Whether a claim that is sent again is stored. One that lingers is left as it is, and one that an operator ended
    /// is renewed no more.
    pub(crate) fn takes(&self, claim: &Claim) -> bool {
        let fits = self.capacity == claim.capacity && self.weight >= claim.weight;
        self.lives && self.state != OUT && !self.evicted && !self.lingers && fits
    }
}

/// One of the first in line.
#[derive(Debug)]
struct Waiter {
    id: ClaimId,
    turn: i64,
    weight: u32,
    capacity: u32,
    lives: bool,
}

/// A line as it is, and what is to be done about it.
#[derive(Debug)]
pub(crate) struct Line {
    /// The claim that asks, if it is there and its lease is not over.
    pub(crate) own: Option<Own>,
    /// How much the holders have together.
    pub(crate) held: u64,
    pub(crate) holders: u64,
    /// How many of them have a lease that is over. They are counted among the holders, as are the next ones.
    expired: u64,
    /// Those of them that were given back, although that is not written down yet.
    released: Vec<ClaimId>,
    capacity: Option<u32>,
    waiters: Vec<Waiter>,
    /// Somebody was taken out of it who may not know yet.
    remembers: bool,
    /// There may be more waiters than were looked at.
    more: bool,
}

impl Line {
    /// Reads what `look.sql` found, from its first answer on.
    pub(crate) fn read(sets: &[Set], at: usize) -> Result<Self, Fault> {
        let own = set(sets, at)?.rows.first().map(own).transpose()?;
        let held = set(sets, at + 2)?.rows.first().ok_or_else(|| Fault::Answer("no holders, not even none".into()))?;
        let waiters = set(sets, at + 3)?.rows.iter().map(waiter).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            own,
            holders: column(held, 0)?,
            held: column(held, 1)?,
            capacity: column(held, 2)?,
            expired: column(held, 3)?,
            remembers: set(sets, at + 4)?.rows.first().map_or(Ok(true), |row| column(row, 0))?,
            released: set(sets, at + 1)?.rows.iter().map(|row| id(row, 0)).collect::<Result<_, _>>()?,
            more: waiters.len() == WINDOW,
            waiters,
        })
    }

    /// Those holders who are over, beside any whose lease is. They must be removed before anything is decided.
    pub(crate) fn over(&self) -> Option<Value> {
        match self.released.as_slice() {
            [] => (self.expired > 0).then_some(Value::Null),
            ids => Some(Value::list(ids.iter().map(Value::id))),
        }
    }

    /// The claim that asks weighs less than before.
    pub(crate) fn lighten(&mut self, id: ClaimId, weight: u32) {
        let Some(own) = &mut self.own else { return };
        let less = own.weight.saturating_sub(weight);
        own.weight = weight;
        if own.state == HOLDS {
            self.held = self.held.saturating_sub(less.into());
        }
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.id == id) {
            waiter.weight = weight;
        }
    }

    /// Lets in who is next as long as they fit; those whose lease is over are skipped. Writes down what is to be done,
    /// and says whether more waiters are to be looked at then.
    pub(crate) fn settle(&mut self, id: ClaimId, numbers: &mut Numbers, tables: &Tables, todo: &mut Batch) -> bool {
        let mut settled = 0;
        for waiter in &self.waiters {
            let key = || ("id", Value::id(&waiter.id));
            if waiter.lives {
                let mut room = Room::beside(waiter.capacity, self.held);
                if !room.admit(waiter.weight) {
                    break;
                }
                let token = numbers.next(0);
                self.capacity = Some(waiter.capacity);
                self.held += u64::from(waiter.weight);
                self.holders += 1;
                if let Some(own) = self.own.as_mut().filter(|_| waiter.id == id) {
                    own.state = HOLDS;
                    own.token = Some(token);
                }
                todo.push(tables.write(sql!("grant"), &[key(), ("token", Value::number(token))]));
            } else {
                todo.push(tables.write(sql!("expire_waiter"), &[key()]));
            }
            settled += 1;
        }
        self.waiters.drain(..settled);
        self.more && self.waiters.is_empty()
    }

    /// Whether a newcomer gets in at once.
    pub(crate) fn admits(&self, claim: &Claim) -> bool {
        let passed = self.waiters.first().is_some_and(|first| first.turn <= turn(claim));
        let barges = claim.patience == Patience::Barges;
        (barges || !passed) && Room::beside(claim.capacity, self.held).admit(claim.weight)
    }

    /// Claims of one name must say the same capacity.
    pub(crate) fn agrees(&self, claim: &Claim) -> Result<(), Error> {
        let in_use = self.capacity.or(self.waiters.iter().find(|waiter| waiter.lives).map(|waiter| waiter.capacity));
        in_use.map_or(Ok(()), |capacity| agree(capacity, claim))
    }

    /// Whether nobody is left, but for the claim that asks.
    pub(crate) fn is_deserted(&self) -> bool {
        self.holders == 0 && self.waiters.is_empty() && !self.remembers
    }
}

/// Whether a claim says the capacity with which its name is in use.
pub(crate) fn agree(in_use: u32, claim: &Claim) -> Result<(), Error> {
    if in_use == claim.capacity {
        return Ok(());
    }
    let what = format!("the name is in use with capacity {in_use}, not {}", claim.capacity);
    Err(Error::new(Kind::Conflict, what).help("use one kind of lock, and one number of permits, for a name"))
}

/// The order in line, ascending: the higher the priority, the sooner.
pub(crate) fn turn(claim: &Claim) -> i64 {
    // The column has no place for the sign-turned smallest one; the two smallest priorities are one.
    -i64::from(claim.priority.max(-i32::MAX))
}

/// The numbers of one name: tokens and numbers of arrival.
#[derive(Debug)]
pub(crate) struct Numbers {
    newest: u64,
    stored: u64,
}

impl Numbers {
    pub(crate) fn new(newest: u64) -> Self {
        Self { newest, stored: newest }
    }

    /// The next number: greater than all before, and not smaller than `floor`.
    pub(crate) fn next(&mut self, floor: u64) -> u64 {
        self.newest = self.newest.saturating_add(1).max(floor);
        self.newest
    }

    /// No number below `floor` is given out from now on.
    pub(crate) fn keep_above(&mut self, floor: u64) {
        self.newest = self.newest.max(floor);
    }

    /// The newest number, if it must be written back.
    pub(crate) fn changed(&self) -> Option<u64> {
        (self.newest != self.stored).then_some(self.newest)
    }
}

fn own(row: &Row) -> Result<Own, Fault> {
    Ok(Own {
        state: column(row, 0)?,
        turn: column(row, 1)?,
        arrived: column(row, 2)?,
        weight: column(row, 3)?,
        capacity: column(row, 4)?,
        token: column(row, 5)?,
        lives: column(row, 6)?,
        evicted: column(row, 7)?,
        lingers: column(row, 8)?,
    })
}

fn waiter(row: &Row) -> Result<Waiter, Fault> {
    Ok(Waiter {
        id: id(row, 0)?,
        turn: column(row, 1)?,
        weight: column(row, 2)?,
        capacity: column(row, 3)?,
        lives: column(row, 4)?,
    })
}

/// The identity of a claim in a row.
pub(crate) fn id(row: &Row, at: usize) -> Result<ClaimId, Fault> {
    let bytes: Vec<u8> = column(row, at)?;
    let bytes = bytes.try_into().map_err(|_| Fault::Answer("an id has 16 bytes".into()))?;
    Ok(ClaimId::from_bytes(bytes))
}
