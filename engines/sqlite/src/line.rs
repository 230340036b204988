//! The line of one name in a transaction: who holds, who is next, who is let in, who is gone.

use lockhouse_core::line::Room;
use lockhouse_core::{Claim, ClaimId, Error, Kind, Moment, Name, Patience, Standing};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::client::Client;
use crate::error::Fault;
use crate::moves::Moves;

/// A statement from its file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// `claims.state`.
pub(crate) const HOLDS: i64 = 0;
/// `claims.state`.
pub(crate) const WAITS: i64 = 1;
/// `claims.state`: an operator took it out of the line.
pub(crate) const OUT: i64 = 2;

/// One transaction: the connection while nobody else writes.
#[derive(Debug)]
pub(crate) struct Tx<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) client: &'a Client,
    /// When the transaction began, on the boot clock.
    pub(crate) now: i64,
    pub(crate) moves: Moves,
    /// The newest number given out, once it was read, and whether it must be written back.
    counter: Option<i64>,
    counted: bool,
}

/// A claim as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) state: i64,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) priority: i32,
    pub(crate) arrived: i64,
    pub(crate) token: Option<u64>,
    pub(crate) lease_end: i64,
    pub(crate) client: Option<i64>,
    pub(crate) evicted: bool,
}

/// The first in line.
#[derive(Debug)]
struct First {
    id: ClaimId,
    weight: u32,
    capacity: u32,
    priority: i32,
    lease_end: i64,
    client: Option<i64>,
}

/// The holders of a name.
#[derive(Debug)]
struct Held {
    weight: u64,
    capacity: Option<u32>,
    first_end: Option<i64>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(connection: &'a Connection, client: &'a Client, now: Moment) -> Self {
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        Self { connection, client, now, moves: Moves::default(), counter: None, counted: false }
    }

    /// Writes back what was kept in memory, just before the commit.
    pub(crate) fn finish(self) -> Result<Moves, Fault> {
        if let Some(counter) = self.counter.filter(|_| self.counted) {
            self.connection.prepare_cached(sql!("count"))?.execute([counter])?;
        }
        Ok(self.moves)
    }

    /// Reads the counter, and says whether there is anything at all under a name.
    pub(crate) fn anything(&mut self, name: &Name) -> Result<bool, Fault> {
        let mut glance = self.connection.prepare_cached(sql!("glance"))?;
        let (counter, anything) = glance.query_row([name.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.counter.get_or_insert(counter);
        Ok(anything)
    }

    /// The next number: greater than all before, and not smaller than `floor`.
    pub(crate) fn number(&mut self, name: &Name, floor: u64) -> Result<i64, Fault> {
        if self.counter.is_none() {
            self.anything(name)?;
        }
        let next = self.counter.and_then(|counter| counter.checked_add(1)).map(i64::cast_unsigned);
        // A floor is not below a number that was given out somewhere else, and there are no more of them here than
        // there.
        let next = next.and_then(|next| i64::try_from(next.max(floor)).ok());
        let next = next.ok_or_else(|| Error::new(Kind::Invalid, "there is no fencing number left above this one"))?;
        self.counter = Some(next);
        self.counted = true;
        Ok(next)
    }

    /// No number below `floor` is given out from now on.
    pub(crate) fn keep_above(&mut self, name: &Name, floor: u64) -> Result<(), Fault> {
        self.anything(name)?;
        if self.counter.is_some_and(|counter| counter.cast_unsigned() < floor) {
            self.number(name, floor)?;
        }
        Ok(())
    }

    /// A claim as it is stored.
    pub(crate) fn find(&self, name: &Name, id: &ClaimId) -> Result<Option<Stored>, Fault> {
        find(self.connection, name, id)
    }

    /// Whether a newcomer gets in, after everybody who is gone has been swept and everybody who fits has been let in.
    pub(crate) fn fits(&mut self, claim: &Claim) -> Result<bool, Fault> {
        self.settle(&claim.name)?;
        match self.look(claim) {
            Ok(true) => Ok(true),
            // Before anybody is kept out because of a holder, make sure that the holder lives.
            _ if self.bury(&claim.name)? => {
                self.settle(&claim.name)?;
                self.look(claim)
            }
            kept_out => kept_out,
        }
    }

    fn look(&mut self, claim: &Claim) -> Result<bool, Fault> {
        let held = self.held(&claim.name)?;
        let first = self.first(&claim.name)?;
        let capacity = held.capacity.or(first.as_ref().map(|first| first.capacity));
        agree(claim, capacity.unwrap_or(claim.capacity))?;
        let passed = first.is_some_and(|first| first.priority >= claim.priority);
        let barges = claim.patience == Patience::Barges;
        Ok((barges || !passed) && Room::beside(claim.capacity, held.weight).admit(claim.weight))
    }

    /// Lets in who is next as long as they fit; those whose lease is over or whose client is dead are skipped.
    pub(crate) fn settle(&mut self, name: &Name) -> Result<(), Fault> {
        let mut room = None;
        while let Some(first) = self.first(name)? {
            if first.lease_end <= self.now || self.client.is_dead(first.client) {
                self.remove(name, &first.id)?;
                continue;
            }
            let room = match &mut room {
                Some(room) => room,
                none => none.insert(Room::beside(first.capacity, self.held(name)?.weight)),
            };
            if !room.admit(first.weight) {
                break;
            }
            let token = self.number(name, 0)?;
            let mut grant = self.connection.prepare_cached(sql!("grant"))?;
            grant.execute(params![name.as_str(), first.id.as_bytes(), token, self.now])?;
            let standing = Standing::Granted { token: token.cast_unsigned() };
            self.moves.add(first.client, name, first.id, Some(standing));
        }
        Ok(())
    }

    /// Sweeps the holders of a name whose client is dead. Says whether there were any.
    pub(crate) fn bury(&mut self, name: &Name) -> Result<bool, Fault> {
        let mut clients = self.connection.prepare_cached(sql!("holders_clients"))?;
        let clients = clients.query_map([name.as_str()], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        let mut buried = 0;
        for client in clients {
            if self.client.is_dead(Some(client)) {
                buried += self.connection.prepare_cached(sql!("bury"))?.execute(params![name.as_str(), client])?;
            }
        }
        Ok(buried > 0)
    }

    /// Takes a claim out, whatever its state. Says whether it was there.
    pub(crate) fn remove(&self, name: &Name, id: &ClaimId) -> Result<bool, Fault> {
        let removed = self.connection.prepare_cached(sql!("remove"))?.execute(params![name.as_str(), id.as_bytes()])?;
        Ok(removed > 0)
    }

    /// The holders whose lease is not over; the others are swept.
    fn held(&self, name: &Name) -> Result<Held, Fault> {
        let look = || {
            self.connection.prepare_cached(sql!("held"))?.query_row([name.as_str()], |row| {
                Ok(Held {
                    weight: row.get::<_, i64>(0)?.cast_unsigned(),
                    capacity: row.get(1)?,
                    first_end: row.get(2)?,
                })
            })
        };
        let held = look()?;
        if held.first_end.is_none_or(|end| end > self.now) {
            return Ok(held);
        }
        self.connection.prepare_cached(sql!("expire_holders"))?.execute(params![name.as_str(), self.now])?;
        Ok(look()?)
    }

    fn first(&self, name: &Name) -> Result<Option<First>, Fault> {
        let first = |row: &Row<'_>| {
            Ok(First {
                id: ClaimId::from_bytes(row.get(0)?),
                weight: row.get(1)?,
                capacity: row.get(2)?,
                priority: row.get(3)?,
                lease_end: row.get(4)?,
                client: row.get(5)?,
            })
        };
        Ok(self.connection.prepare_cached(sql!("next"))?.query_row([name.as_str()], first).optional()?)
    }
}

/// A claim as it is stored, whatever its state.
pub(crate) fn find(connection: &Connection, name: &Name, id: &ClaimId) -> Result<Option<Stored>, Fault> {
    let stored = |row: &Row<'_>| {
        Ok(Stored {
            state: row.get(0)?,
            weight: row.get(1)?,
            capacity: row.get(2)?,
            priority: row.get(3)?,
            arrived: row.get(4)?,
            token: row.get::<_, Option<i64>>(5)?.map(i64::cast_unsigned),
            lease_end: row.get(6)?,
            client: row.get(7)?,
            evicted: row.get(8)?,
        })
    };
    let mut find = connection.prepare_cached(sql!("find"))?;
    Ok(find.query_row(params![name.as_str(), id.as_bytes()], stored).optional()?)
}

/// Claims of one name must say the same capacity.
pub(crate) fn agree(claim: &Claim, capacity: u32) -> Result<(), Fault> {
    if claim.capacity == capacity {
        return Ok(());
    }
    let what = format!("the name is in use with a capacity of {capacity}, and this claim says {}", claim.capacity);
    let help = "use one kind of lock and one number of permits for a name";
    Err(Error::new(Kind::Conflict, what).help(help).into())
}

/// Inserts a claim into its line.
pub(crate) fn insert(tx: &Tx<'_>, claim: &Claim, state: i64, arrived: i64, token: Option<i64>) -> Result<(), Fault> {
    let client = (!claim.lingers).then_some(tx.client.id);
    tx.connection.prepare_cached(sql!("insert"))?.execute(params![
        claim.name.as_str(),
        state,
        claim.id.as_bytes(),
        claim.owner.label(),
        claim.weight,
        claim.capacity,
        claim.priority,
        arrived,
        token,
        lease_end(tx.now, claim),
        client,
        tx.now,
        claim.note.as_deref().map_or(Value::Null, |note| Value::Text(note.to_owned())),
    ])?;
    Ok(())
}

/// When a lease that begins now is over.
pub(crate) fn lease_end(now: i64, claim: &Claim) -> i64 {
    now.saturating_add(i64::try_from(claim.ttl.as_nanos()).unwrap_or(i64::MAX))
}
