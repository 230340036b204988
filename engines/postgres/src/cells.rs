//! Cells: a row each.

use lockhouse_core::{Cell, Name, Write, Written};
use tokio_postgres::types::Type;

use crate::error::Fault;
use crate::pool::Value;
use crate::said::number;
use crate::server::{PATIENCE, Server, get};

impl Server {
    pub(crate) async fn read_cell(&self, name: &Name) -> Result<Cell, Fault> {
        let rows = self.pool.ask(&self.statements.read_cell, &[(&name.as_str(), Type::TEXT)], PATIENCE).await?;
        let Some(row) = rows.first() else { return Ok(Cell::default()) };
        Ok(Cell {
            version: get::<i64>(row, 0)?.unsigned_abs(),
            token: get::<i64>(row, 1)?.unsigned_abs(),
            value: get(row, 2)?,
        })
    }

    pub(crate) async fn write_cell(&self, name: &Name, write: &Write) -> Result<Written, Fault> {
        let values: [Value<'_>; 5] = [
            (&name.as_str(), Type::TEXT),
            (&write.id.as_slice(), Type::BYTEA),
            (&write.value.as_slice(), Type::BYTEA),
            (&write.if_version.map(number).transpose()?, Type::INT8),
            (&write.token.map(number).transpose()?, Type::INT8),
        ];
        let row = self.one(&self.statements.write_cell, &values, PATIENCE).await?;
        let number = get::<i64>(&row, 1)?.unsigned_abs();
        match get::<i16>(&row, 0)? {
            0 => Ok(Written::Yes { version: number }),
            1 => Ok(Written::Changed { version: number }),
            2 => Ok(Written::Stale { newest: number }),
            other => Err(Fault::Answer(format!("{other} is no outcome of a write"))),
        }
    }
}
