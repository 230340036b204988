//! Statements from their files, with the names of the tables and the values put in.
//!
//! Several statements travel as one text, which is one round trip, and such a text cannot be prepared. So values are
//! written into it, and only in forms that can be nothing but a value: numbers, and bytes as `x'…'`. Those that come
//! alone, and often, are prepared, which saves the server some work.

use std::fmt::Write as _;

use lockhouse_core::{Claim, ClaimId, Error, Kind, Name, Result};

use crate::error::ENGINE;

/// A statement, or several, from its file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// How the engine's tables are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    base: String,
}

/// The longest first part of a table's name: MySQL allows 64 characters in all.
const LONGEST_BASE: usize = 48;

impl Tables {
    /// Tables whose names begin with `base` and an underscore.
    pub(crate) fn new(base: &str) -> Result<Self> {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if base.is_empty() || base.len() > LONGEST_BASE || !base.chars().all(letters) {
            let what = format!("{base:?} cannot be the first part of a table's name");
            let help = format!("use up to {LONGEST_BASE} letters, digits and underscores, such as table=lockhouse");
            return Err(Error::new(Kind::Invalid, what).help(help).engine(ENGINE));
        }
        Ok(Self { base: base.to_owned() })
    }

    /// The name of one of the tables: `locks`, `gates`, `claims`, `schema`, `cells`, `rows` or `released`.
    pub(crate) fn name(&self, table: &str) -> String {
        format!("{}_{table}", self.base)
    }

    /// Puts tables and values in the place of what stands in braces, and leaves comments out.
    pub(crate) fn write(&self, statement: &str, values: &Values<'_>) -> String {
        self.fill(statement, values, |text, value| value.write(text))
    }

    /// One statement to be prepared, the same text whatever the values are, and what it is to be carried out with.
    pub(crate) fn prepare(&self, statement: &str, values: &Values<'_>) -> (String, Vec<mysql_async::Value>) {
        let mut parameters = Vec::with_capacity(values.len());
        let text = self.fill(statement, values, |text, value| value.prepare(text, &mut parameters));
        (text, parameters)
    }

    fn fill(&self, statement: &str, values: &Values<'_>, mut put: impl FnMut(&mut String, &Value)) -> String {
        let mut text = String::with_capacity(statement.len() * 2);
        for line in statement.lines().filter(|line| !line.trim_start().starts_with("--")) {
            let line = line.split(" -- ").next().unwrap_or(line);
            let mut rest = line.trim_start();
            while let Some((before, after)) = rest.split_once('{') {
                let (key, after) = after.split_once('}').unwrap_or((after, ""));
                text.push_str(before);
                match key {
                    "locks" | "gates" | "claims" | "cells" | "schema" | "rows" | "released" => {
                        let _ = write!(text, "`{}_{key}`", self.base);
                    }
                    key => match values.iter().find(|(name, _)| *name == key) {
                        Some((_, value)) => put(&mut text, value),
                        None => unreachable!("the statement has a value {key:?} that was not given"),
                    },
                }
                rest = after;
            }
            text.push_str(rest);
            text.push(' ');
        }
        text
    }
}

/// What is put in the place of what stands in braces.
pub(crate) type Values<'v> = [(&'v str, Value)];

/// Statements that travel together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) text: String,
    /// How many there are: each has an answer of its own.
    pub(crate) statements: usize,
}

impl Batch {
    /// Adds one statement.
    pub(crate) fn push(&mut self, statement: String) {
        self.text.push_str(&statement);
        self.statements += 1;
    }
}

/// A value of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Something that the database works out itself.
    Expression(String),
    Null,
    Number(i128),
    Bytes(Vec<u8>),
    /// Text for people.
    Text(String),
    /// Several values, for `IN (…)`.
    List(Vec<Self>),
}

impl Value {
    /// Something that the database works out itself.
    pub(crate) fn expression(expression: &str) -> Self {
        Self::Expression(expression.to_owned())
    }

    pub(crate) fn number(number: impl Into<i128>) -> Self {
        Self::Number(number.into())
    }

    pub(crate) fn maybe(number: Option<u64>) -> Self {
        number.map_or(Self::Null, Self::number)
    }

    pub(crate) fn flag(flag: bool) -> Self {
        Self::Number(flag.into())
    }

    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_owned())
    }

    /// Text for people, cut off at so many characters.
    pub(crate) fn text(text: &str, longest: usize) -> Self {
        let end = text.char_indices().nth(longest).map_or(text.len(), |(end, _)| end);
        Self::Text(text[..end].to_owned())
    }

    pub(crate) fn name(name: &Name) -> Self {
        Self::bytes(name.as_str().as_bytes())
    }

    pub(crate) fn id(id: &ClaimId) -> Self {
        Self::bytes(id.as_bytes())
    }

    /// A lease in microseconds, rounded up: shorter than asked for it must not be.
    pub(crate) fn lease(claim: &Claim) -> Self {
        Self::number(u64::try_from(claim.ttl.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX))
    }

    /// Several values, for `IN (…)`.
    pub(crate) fn list(values: impl IntoIterator<Item = Self>) -> Self {
        Self::List(values.into_iter().collect())
    }

    /// As it stands in a text: in a form that can be nothing but a value.
    fn write(&self, text: &mut String) {
        match self {
            Self::Expression(expression) => text.push_str(expression),
            Self::Null => text.push_str("NULL"),
            Self::Number(number) => drop(write!(text, "{number}")),
            Self::Bytes(bytes) => {
                text.push_str("x'");
                hex(text, bytes);
                text.push('\'');
            }
            Self::Text(people) => {
                text.push_str("_utf8mb4 x'");
                hex(text, people.as_bytes());
                text.push('\'');
            }
            Self::List(values) => {
                for (at, value) in values.iter().enumerate() {
                    text.push_str(if at > 0 { ", " } else { "" });
                    value.write(text);
                }
            }
        }
    }

    /// As it stands in a statement that is prepared, and what it is carried out with. Bytes travel as digits: for the
    /// server whatever comes is text, and it might find that it is none.
    fn prepare(&self, text: &mut String, parameters: &mut Vec<mysql_async::Value>) {
        let (place, parameter) = match self {
            Self::Expression(_) | Self::List(_) => return self.write(text),
            Self::Null => ("?", mysql_async::Value::NULL),
            Self::Number(number) => ("?", u64::try_from(*number).map_or_else(|_| signed(*number), Into::into)),
            Self::Bytes(bytes) => {
                let mut digits = String::with_capacity(bytes.len() * 2);
                hex(&mut digits, bytes);
                ("UNHEX(?)", digits.into())
            }
            Self::Text(people) => ("?", people.as_str().into()),
        };
        text.push_str(place);
        parameters.push(parameter);
    }
}

/// A number that is below zero. None of ours is smaller than that.
fn signed(number: i128) -> mysql_async::Value {
    i64::try_from(number).unwrap_or(i64::MIN).into()
}

fn hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_values_are_put_in_and_comments_left_out() {
        let tables = Tables::new("jobs").unwrap();
        let name = Name::new("it's a \\ name").unwrap();
        let text = tables.write(
            "-- why\nSELECT a FROM {locks} -- what\n  WHERE name = {name} AND n = {n};",
            &[("name", Value::name(&name)), ("n", Value::number(-7))],
        );
        assert_eq!(text, "SELECT a FROM `jobs_locks` WHERE name = x'697427732061205c206e616d65' AND n = -7; ");
    }

    #[test]
    fn what_is_prepared_is_the_same_text_whatever_the_values_are() {
        let tables = Tables::new("jobs").unwrap();
        let prepare = |bytes: &[u8], note: Value, turn: i64| {
            let values = [("id", Value::bytes(bytes)), ("note", note), ("turn", Value::number(turn))];
            tables.prepare("UPDATE {locks} SET id = {id}, note = {note}, turn = {turn}", &values)
        };
        let text = "UPDATE `jobs_locks` SET id = UNHEX(?), note = ?, turn = ? ";
        let (some, none) = (Value::text("it's", 9), Value::Null);
        assert_eq!(prepare(&[0xff, 7], some, -7), (text.into(), vec!["ff07".into(), "it's".into(), (-7_i64).into()]));
        assert_eq!(prepare(b"", none, 7), (text.into(), vec!["".into(), mysql_async::Value::NULL, 7_u64.into()]));
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(Value::text("aé😀b", 2), Value::Text("aé".into()));
    }

    #[test]
    fn a_table_name_cannot_be_anything_else() {
        for base in ["", "a`b", "a b", "a.b", "ä", &"x".repeat(49)] {
            assert_eq!(Tables::new(base).unwrap_err().kind(), Kind::Invalid, "{base}");
        }
    }
}
