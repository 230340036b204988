//! Small versioned values that check tokens.

use lockhouse_core::{Cell, Name, Write, Written};

use crate::error::Fault;
use crate::pool::{Request, Session, column, set};
use crate::statement::{Tables, Value, sql};

/// `read`.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) name: &'a Name,
}

impl Request for Reading<'_> {
    type Answer = Cell;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Cell, Fault> {
        let sets = session.look(&self.tables.write(sql!("read_cell"), &[("name", Value::name(self.name))])).await?;
        let Some(row) = set(&sets, 0)?.rows.first() else { return Ok(Cell::default()) };
        Ok(Cell { version: column(row, 0)?, token: column(row, 1)?, value: column(row, 2)? })
    }
}

/// `write`.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) name: &'a Name,
    pub(crate) write: &'a Write,
}

impl Request for Writing<'_> {
    type Answer = Written;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Written, Fault> {
        let Self { tables, name, write } = self;
        let values = [
            ("name", Value::name(name)),
            ("id", Value::bytes(&write.id)),
            ("value", Value::bytes(&write.value)),
            ("token", Value::number(write.token.unwrap_or(0))),
            ("fence", Value::maybe(write.token)),
            ("if_version", Value::maybe(write.if_version)),
        ];
        let text = tables.write(sql!("write_cell"), &values);
        loop {
            let sets = session.write(&text).await?;
            if let Some(row) = set(&sets, 1)?.rows.first() {
                let (version, newest, last): (u64, u64, Vec<u8>) = (column(row, 0)?, column(row, 1)?, column(row, 2)?);
                let written = set(&sets, 2)?.changed == 1;
                return outcome(write, version, newest, last == write.id, written);
            }
            // A cell that is not there is at version 0, and is created before anybody searches for it.
            if write.if_version.is_some_and(|version| version != 0) {
                return Ok(Written::Changed { version: 0 });
            }
            session.write(&tables.write(sql!("create_cell"), &values[..1])).await?;
        }
    }
}

/// What became of the write of a cell that was like this before.
fn outcome(write: &Write, version: u64, newest: u64, repeated: bool, written: bool) -> Result<Written, Fault> {
    let expected = if repeated {
        Written::Yes { version }
    } else if write.token.is_some_and(|token| token < newest) {
        Written::Stale { newest }
    } else if write.if_version.is_some_and(|expected| expected != version) {
        Written::Changed { version }
    } else {
        Written::Yes { version: version + 1 }
    };
    // The statement compares by itself, and the row was locked: both must have come to the same.
    if written == (matches!(expected, Written::Yes { .. }) && !repeated) {
        return Ok(expected);
    }
    Err(Fault::Answer(format!("a cell was to be {expected:?}, and was {}written", if written { "" } else { "not " })))
}
