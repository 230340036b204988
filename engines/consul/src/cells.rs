//! Cells: a key each, whose ModifyIndex is the version.

use lockhouse_core::{Cell, Error, Kind, Name, Result, Write, Written};

use crate::api::{Kv, Op, Outcome};
use crate::error::Fault;
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
        let key = self.store.keys.cell(name);
        for _ in 0..ATTEMPTS {
            let Stored { cell, write_id } = self.stored_cell(name).await?;
            // A repetition is answered first, as the first time.
            if cell.version > 0 && write_id == write.id {
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
            let written = self.store.change(&[Op::write(&key, cell.version, value)], PATIENCE).await;
            if let Outcome::Done(kvs) = written.map_err(|fault| self.explain(fault))? {
                let version = kvs.iter().find(|kv| kv.key == key).map(|kv| kv.written);
                let nothing = || self.explain(Fault::Answer("nothing about what was written".into()));
                return version.map(|version| Written::Yes { version }).ok_or_else(nothing);
            }
        }
        Err(Error::new(Kind::Unreachable, "others kept writing this cell").help("try again"))
    }

    async fn stored_cell(&self, name: &Name) -> Result<Stored> {
        let key = self.store.keys.cell(name);
        let kvs = self.store.read(&[&key], PATIENCE).await.map_err(|fault| self.explain(fault))?;
        read(kvs.iter().find(|kv| kv.key == key)).map_err(|fault| self.explain(fault))
    }
}

fn read(kv: Option<&Kv>) -> Result<Stored, Fault> {
    let Some(kv) = kv else { return Ok(Stored::default()) };
    let foreign = || Fault::Answer(format!("the key {:?} is no cell", kv.key));
    let value = kv.value.as_deref().unwrap_or_default();
    let (write_id, rest) = value.split_first_chunk::<ID>().ok_or_else(foreign)?;
    let (token, value) = rest.split_first_chunk::<TOKEN>().ok_or_else(foreign)?;
    let cell = Cell { version: kv.written, token: u64::from_be_bytes(*token), value: value.to_vec() };
    Ok(Stored { cell, write_id: *write_id })
}
