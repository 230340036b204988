//! Reading what scripts answer.

use redis::Value;

use crate::error::Fault;

/// The parts of an answer, read one after the other.
#[derive(Debug)]
pub(crate) struct Answer {
    parts: std::vec::IntoIter<Value>,
}

impl Answer {
    /// The parts of an answer that is a list.
    pub(crate) fn new(value: Value) -> Result<Self, Fault> {
        match value {
            Value::Array(parts) => Ok(Self { parts: parts.into_iter() }),
            other => Err(unexpected(&other)),
        }
    }

    /// An answer of one part.
    pub(crate) fn of(value: Value) -> Self {
        Self { parts: vec![value].into_iter() }
    }

    /// How many parts are left.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The next part, whatever it is.
    pub(crate) fn value(&mut self) -> Result<Value, Fault> {
        self.parts.next().ok_or_else(|| Fault::Answer("it is too short".into()))
    }

    /// The next part, a number.
    pub(crate) fn number(&mut self) -> Result<i64, Fault> {
        match self.value()? {
            Value::Int(number) => Ok(number),
            Value::BulkString(text) => {
                let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                number.ok_or_else(|| unexpected(&Value::BulkString(text)))
            }
            // Redis 7 gives the scores of a sorted set as such in some versions.
            other => Err(unexpected(&other)),
        }
    }

    /// The next part, a number that is not negative.
    pub(crate) fn count(&mut self) -> Result<u64, Fault> {
        let number = self.number()?;
        u64::try_from(number).map_err(|_| Fault::Answer(format!("{number} is negative")))
    }

    /// The next part, text or nothing.
    pub(crate) fn bytes(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(Some(bytes)),
            Value::SimpleString(text) => Ok(Some(text.into_bytes())),
            Value::Nil => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    /// The next part, a list.
    pub(crate) fn list(&mut self) -> Result<Self, Fault> {
        Self::new(self.value()?)
    }
}

fn unexpected(value: &Value) -> Fault {
    // Its kind alone: what it says may be somebody's data.
    Fault::Answer(match value {
        Value::Int(_) => "a number where none belongs".into(),
        Value::BulkString(_) | Value::SimpleString(_) => "a text where none belongs".into(),
        Value::Array(_) => "a list where none belongs".into(),
        Value::Nil => "nothing where something belongs".into(),
        _ => "something that scripts do not give".into(),
    })
}
