//! What people see of the lines.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use lockhouse_core::{ClaimId, Clock, Line, Name, Place};
use rusqlite::{Connection, Row, params};

use crate::client::Client;
use crate::error::Fault;
use crate::line::sql;

/// A place, and what decides its order in the line.
struct Seen {
    place: Place,
    capacity: u32,
    arrived: i64,
    client: Option<i64>,
}

/// Every line whose name begins with `prefix`. Claims that are over are left out, also when nobody has swept them yet.
pub(crate) fn survey(connection: &Connection, client: &Client, prefix: &str) -> Result<Vec<Line>, Fault> {
    let now = i64::try_from(Clock::Boot.now().as_nanos()).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(sql!("survey"))?;
    let mut rows = statement.query(params![prefix, now])?;
    let mut lines: Vec<(String, Vec<Seen>)> = Vec::new();
    let mut dead: HashMap<i64, bool> = HashMap::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if !name.starts_with(prefix) {
            break;
        }
        let seen = seen(row, now)?;
        let is_dead = seen.client.is_some_and(|id| *dead.entry(id).or_insert_with(|| client.is_dead(Some(id))));
        match lines.last_mut() {
            _ if is_dead => {}
            Some((last, line)) if *last == name => line.push(seen),
            _ => lines.push((name, vec![seen])),
        }
    }
    lines.into_iter().map(|(name, line)| Ok(in_order(Name::new(name)?, line))).collect()
}

fn seen(row: &Row<'_>, now: i64) -> rusqlite::Result<Seen> {
    let nanos = |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    let place = Place {
        id: ClaimId::from_bytes(row.get(1)?).public(),
        owner: row.get(2)?,
        weight: row.get(3)?,
        priority: row.get(5)?,
        token: row.get::<_, Option<i64>>(7)?.map(i64::cast_unsigned),
        lease_left: nanos(row.get::<_, i64>(8)? - now),
        since: nanos(now - row.get::<_, i64>(10)?),
        note: row.get(11)?,
        evicted: row.get(12)?,
    };
    Ok(Seen { place, capacity: row.get(4)?, arrived: row.get(6)?, client: row.get(9)? })
}

/// Holders first, in the order of their tokens, then waiters in the order of their turn.
fn in_order(name: Name, mut line: Vec<Seen>) -> Line {
    line.sort_by_key(|seen| match seen.place.token {
        Some(token) => (false, Reverse(0), token, 0),
        None => (true, Reverse(seen.place.priority), 0, seen.arrived),
    });
    let capacity = line.first().map_or(0, |seen| seen.capacity);
    Line { name, capacity, places: line.into_iter().map(|seen| seen.place).collect() }
}
