//! What a claim says of itself, in the words of the statements that put it in line.

use std::time::Duration;

use lockhouse_core::{Claim, Error, Kind, Result};
use tokio_postgres::types::Type;

use crate::pool::Value;

/// What a claim says of itself: the first eleven values of a statement.
#[derive(Debug)]
pub(crate) struct Said {
    name: String,
    id: Vec<u8>,
    weight: i64,
    capacity: i64,
    priority: i32,
    ttl: i64,
    floor: i64,
    lingers: bool,
    channel: String,
    owner: String,
    note: Option<String>,
}

impl Said {
    /// Refuses what no engine can make sense of. `channel` is where its client listens.
    pub(crate) fn by(claim: &Claim, channel: &str) -> Result<Self> {
        let invalid = |what: String, help: &str| Err(Error::new(Kind::Invalid, what).help(help));
        if claim.weight == 0 || claim.weight > claim.capacity {
            let what = format!("a weight of {} never fits into a capacity of {}", claim.weight, claim.capacity);
            return invalid(what, "ask for at least one permit, and for no more than there are");
        }
        if claim.ttl.is_zero() {
            return invalid("a lease of no length is over before it begins".into(), "some seconds are usual");
        }
        Ok(Self {
            name: claim.name.as_str().to_owned(),
            id: claim.id.as_bytes().to_vec(),
            weight: claim.weight.into(),
            capacity: claim.capacity.into(),
            priority: claim.priority,
            ttl: micros(claim.ttl),
            floor: number(claim.floor)?,
            lingers: claim.lingers,
            channel: channel.to_owned(),
            owner: shown(claim.owner.label()),
            note: claim.note.as_deref().map(shown),
        })
    }

    pub(crate) fn values(&self) -> [Value<'_>; 11] {
        [
            (&self.name, Type::TEXT),
            (&self.id, Type::BYTEA),
            (&self.weight, Type::INT8),
            (&self.capacity, Type::INT8),
            (&self.priority, Type::INT4),
            (&self.ttl, Type::INT8),
            (&self.floor, Type::INT8),
            (&self.lingers, Type::BOOL),
            (&self.channel, Type::TEXT),
            (&self.owner, Type::TEXT),
            (&self.note, Type::TEXT),
        ]
    }
}

/// A lease in whole microseconds, rounded up: shorter than asked for it must not be.
pub(crate) fn micros(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX)
}

/// A token or version as the server keeps it.
pub(crate) fn number(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::new(Kind::Invalid, format!("no number is as large as {number}")))
}

/// Text for people. The server keeps every character but one.
fn shown(text: &str) -> String {
    text.replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_rounded_up() {
        assert_eq!(micros(Duration::from_nanos(1)), 1);
        assert_eq!(micros(Duration::from_nanos(1500)), 2);
        assert_eq!(micros(Duration::from_secs(1)), 1_000_000);
    }
}
