//! What our tables and functions are called, and the statements about them.

use std::fmt;

use lockhouse_core::{Error, Kind, Result};

use crate::error::ENGINE;
use crate::hold::Hold;

/// What the files call every table and function: the schema and the name in the engine's URL take its place.
const PLACEHOLDER: &str = "lockhouse_";
const DEFAULT_SCHEMA: &str = "public";
const DEFAULT_NAME: &str = "lockhouse";
/// PostgreSQL cuts names off after 63 bytes, and ours have something appended.
const LONGEST: usize = 40;

/// A statement from its file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// Where our tables are.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    schema: String,
    name: String,
}

impl Default for Tables {
    fn default() -> Self {
        Self { schema: DEFAULT_SCHEMA.into(), name: DEFAULT_NAME.into() }
    }
}

impl Tables {
    /// Reads `name` or `schema.name`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (schema, name) = text.split_once('.').unwrap_or((DEFAULT_SCHEMA, text));
        match is_plain(schema) && is_plain(name) {
            true => Ok(Self { schema: schema.into(), name: name.into() }),
            false => Err(Error::new(Kind::Invalid, format!("{text:?} cannot be the name of tables"))
                .help("write ?table=lockhouse or ?table=schema.lockhouse: small letters, digits and underscores")
                .engine(ENGINE)),
        }
    }

    /// A statement about our tables.
    pub(crate) fn fill(&self, statement: &str) -> String {
        statement.replace(PLACEHOLDER, &format!("{}.{}_", self.schema, self.name))
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}_…", self.schema, self.name)
    }
}

/// Names that need no quotes, so that everybody can type them.
fn is_plain(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    name.len() <= LONGEST && name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Every statement that is sent while locks are in use, filled in once.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) claim: String,
    pub(crate) withdraw: String,
    pub(crate) renew: String,
    pub(crate) evict: String,
    pub(crate) tidy: String,
    pub(crate) forget: String,
    /// There are rows only where locks are held by them.
    pub(crate) forget_rows: Option<String>,
    pub(crate) ended: String,
    pub(crate) survey: String,
    pub(crate) read_cell: String,
    pub(crate) write_cell: String,
    pub(crate) warm: String,
}

impl Statements {
    pub(crate) fn about(tables: &Tables, hold: Hold) -> Self {
        Self {
            claim: tables.fill(sql!("ask/claim")),
            withdraw: tables.fill(if hold == Hold::Lease { sql!("ask/withdraw") } else { sql!("ask/leave") }),
            renew: tables.fill(sql!("ask/renew")),
            evict: tables.fill(sql!("ask/evict")),
            tidy: tables.fill(sql!("ask/tidy")),
            forget: tables.fill(sql!("ask/forget")),
            forget_rows: (hold == Hold::Row).then(|| tables.fill(sql!("ask/row_forget"))),
            ended: tables.fill(sql!("ask/ended")),
            survey: tables.fill(sql!("ask/survey")),
            read_cell: tables.fill(sql!("ask/read_cell")),
            write_cell: tables.fill(sql!("ask/write_cell")),
            warm: tables.fill(sql!("ask/warm")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_put_in() {
        assert_eq!(Tables::default().fill("x lockhouse_claims y"), "x public.lockhouse_claims y");
        assert_eq!(Tables::parse("jobs").unwrap().fill("lockhouse_claims"), "public.jobs_claims");
        assert_eq!(Tables::parse("app.jobs").unwrap().fill("lockhouse_claims"), "app.jobs_claims");
    }

    #[test]
    fn names_that_need_quotes_are_refused() {
        for name in ["", ".", "a.", ".a", "a.b.c", "A", "1a", "a b", "a;drop", "a\"", &"a".repeat(41)] {
            assert_eq!(Tables::parse(name).unwrap_err().kind(), Kind::Invalid, "{name}");
        }
    }
}
