//! What people see of the lines.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use lockhouse_core::{Line, Name, Place};
use mysql_async::Row;

use crate::error::Fault;
use crate::line::id;
use crate::pool::{Request, Session, column, set};
use crate::statement::{Tables, Value, sql};

/// So many claims at most are left out because they were given back a moment ago: an answer that the server can send
/// without waiting for its reader. If there are more, people see some of them that moment longer.
const MOST_RELEASED: u64 = 500;

/// `survey`.
#[derive(Debug)]
pub(crate) struct Surveying<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) prefix: &'a str,
}

impl Request for Surveying<'_> {
    type Answer = Vec<Line>;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Vec<Line>, Fault> {
        let prefix = self.prefix.as_bytes();
        let length = Value::number(prefix.len() as u64);
        let values = [("prefix", Value::bytes(prefix)), ("length", length), ("most", Value::number(MOST_RELEASED))];
        let sets = session.look(&self.tables.write(sql!("survey"), &values)).await?;
        let released = set(&sets, 0)?.rows.iter().map(|row| id(row, 0)).collect::<Result<HashSet<_>, Fault>>()?;
        let mut lines: BTreeMap<Name, Line> = BTreeMap::new();
        // Holders come first, in the order of their tokens, then waiters in the order of their turn.
        for row in set(&sets, 1)?.rows.iter().chain(&set(&sets, 2)?.rows) {
            if released.contains(&id(row, 1)?) {
                continue;
            }
            let name: Vec<u8> = column(row, 0)?;
            let name = String::from_utf8(name).ok().and_then(|name| Name::new(name).ok());
            let name = name.ok_or_else(|| Fault::Answer("a claim on something that is no name".into()))?;
            let (place, capacity) = (place(row)?, column(row, 4)?);
            let line = lines.entry(name.clone()).or_insert_with(|| Line { name, capacity, places: Vec::new() });
            // It may have moved from its lock's row into the line between both looks.
            if line.places.iter().all(|other| other.id != place.id) {
                line.places.push(place);
            }
        }
        Ok(lines.into_values().collect())
    }
}

fn place(row: &Row) -> Result<Place, Fault> {
    let micros = |at: usize| -> Result<Duration, Fault> {
        Ok(Duration::from_micros(u64::try_from(column::<i64>(row, at)?).unwrap_or(0)))
    };
    Ok(Place {
        id: id(row, 1)?.public(),
        owner: column(row, 2)?,
        weight: column(row, 3)?,
        priority: column(row, 5)?,
        token: column(row, 7)?,
        lease_left: micros(8)?,
        since: micros(9)?,
        note: column(row, 10)?,
        evicted: column(row, 11)?,
    })
}
