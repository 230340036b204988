//! Cells: a key each, whose mod revision is the version.

use lockhouse_core::{Cell, Error, Kind, Name, Result, Write, Written};

use crate::error::Fault;
use crate::ops::{point, put, txn, written_at};
use crate::proto::{KeyValue, Request};
use crate::side::{PATIENCE, Side};

/// How often a write is tried again when others wrote in the meantime and it does not mind.
const ATTEMPTS: u32 = 64;
const ID: usize = 16;
const TOKEN: usize = 8;

/// A cell and the id of its last write.
#[derive(Debug, Default)]
struct Stored {
    cell: Cell,
    write_id: [u8; ID],
}

impl Side {
    pub(crate) async fn read_cell(&self, name: &Name) -> Result<Cell> {
        Ok(self.stored_cell(name).await?.cell)
    }

    pub(crate) async fn write_cell(&self, name: &Name, write: &Write) -> Result<Written> {
        let key = self.keys.cell(name);
        let mut stored = self.stored_cell(name).await?;
        for _ in 0..ATTEMPTS {
            let Stored { cell, write_id } = &stored;
            // A repetition is answered first, as the first time.
            if cell.version > 0 && *write_id == write.id {
                return Ok(Written::Yes { version: cell.version });
            }
            if write.token.is_some_and(|token| token < cell.token) {
                return Ok(Written::Stale { newest: cell.token });
            }
            if write.if_version.is_some_and(|version| version != cell.version) {
                return Ok(Written::Changed { version: cell.version });
            }
            let token = write.token.unwrap_or(cell.token);
            let value = [&write.id[..], &token.to_be_bytes()[..], &write.value[..]].concat();
            let unchanged = written_at(key.clone(), cell.version.cast_signed());
            let request =
                txn(vec![unchanged], vec![put(key.clone(), value, 0)], vec![Request::Range(point(key.clone()))]);
            let changed = self.change(&request, PATIENCE).await.map_err(|fault| self.explain(fault))?;
            let mut outcome = changed;
            if outcome.succeeded {
                return Ok(Written::Yes { version: outcome.revision.unsigned_abs() });
            }
            let now = outcome.key().and_then(|kv| read(kv.as_ref()));
            stored = now.map_err(|fault| self.explain(fault))?;
        }
        Err(Error::new(Kind::Unreachable, "others kept writing this cell").help("try again"))
    }

    async fn stored_cell(&self, name: &Name) -> Result<Stored> {
        let found = self.range(&point(self.keys.cell(name)), PATIENCE).await?;
        read(found.kvs.first()).map_err(|fault| self.explain(fault))
    }
}

fn read(kv: Option<&KeyValue>) -> Result<Stored, Fault> {
    let Some(kv) = kv else { return Ok(Stored::default()) };
    let parts = kv.value.split_first_chunk::<ID>();
    let parts = parts.and_then(|(id, rest)| Some((id, rest.split_first_chunk::<TOKEN>()?)));
    let (write_id, (token, value)) = parts.ok_or(Fault::Answer("a cell that is none of ours"))?;
    let cell =
        Cell { version: kv.mod_revision.unsigned_abs(), token: u64::from_be_bytes(*token), value: value.to_vec() };
    Ok(Stored { cell, write_id: *write_id })
}
