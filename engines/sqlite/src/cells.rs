//! Cells: versioned values that check tokens.

use lockhouse_core::{Cell, Error, Kind, Name, Write, Written};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Fault;
use crate::line::{Tx, sql};

/// A cell and the id of its last write.
struct Stored {
    cell: Cell,
    write_id: Vec<u8>,
}

/// Reads a cell.
pub(crate) fn read(connection: &Connection, name: &Name) -> Result<Cell, Fault> {
    Ok(stored(connection, name)?.map(|stored| stored.cell).unwrap_or_default())
}

impl Tx<'_> {
    /// Writes a cell if its version and token allow it. A repetition is answered first, as the first time.
    pub(crate) fn write_cell(&mut self, name: &Name, write: &Write) -> Result<Written, Fault> {
        let stored = stored(self.connection, name)?;
        let cell = match stored {
            Some(Stored { cell, write_id }) if write_id == write.id => {
                return Ok(Written::Yes { version: cell.version });
            }
            Some(Stored { cell, .. }) => cell,
            None => Cell::default(),
        };
        if write.token.is_some_and(|token| token < cell.token) {
            return Ok(Written::Stale { newest: cell.token });
        }
        if write.if_version.is_some_and(|version| version != cell.version) {
            return Ok(Written::Changed { version: cell.version });
        }
        let version = cell.version + 1;
        let token = write.token.unwrap_or(0).max(cell.token);
        let token =
            i64::try_from(token).map_err(|_| Error::new(Kind::Invalid, format!("no token is as large as {token}")))?;
        self.connection.prepare_cached(sql!("write_cell"))?.execute(params![
            name.as_str(),
            version.cast_signed(),
            token,
            write.id,
            write.value
        ])?;
        Ok(Written::Yes { version })
    }
}

fn stored(connection: &Connection, name: &Name) -> Result<Option<Stored>, Fault> {
    let mut read = connection.prepare_cached(sql!("read_cell"))?;
    let stored = read.query_row([name.as_str()], |row| {
        let cell = Cell {
            version: row.get::<_, i64>(0)?.cast_unsigned(),
            token: row.get::<_, i64>(1)?.cast_unsigned(),
            value: row.get(3)?,
        };
        Ok(Stored { cell, write_id: row.get(2)? })
    });
    Ok(stored.optional()?)
}
