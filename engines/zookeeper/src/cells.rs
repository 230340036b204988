//! Cells: a node each, whose version is ZooKeeper's own.
//!
//! A node has the id of its last write, the newest token seen, and the value.

use lockhouse_core::{Cell, Kind, Name, Result, Write, Written};
use zookeeper_client::{CreateMode, Error as Said};

use crate::ensemble::{Ensemble, PATIENCE};
use crate::error::Fault;
use crate::session::Open;

/// The bytes before the value: the id of the write, and the token.
const HEAD: usize = 16 + 8;
/// How often a cell is looked at before a write, when sessions end meanwhile.
const LOOKS: u32 = 3;

/// A cell as its node has it.
#[derive(Debug, Default)]
struct Kept {
    /// Of the last write; `None` when there was none.
    id: Option<[u8; 16]>,
    cell: Cell,
}

impl Ensemble {
    pub(crate) async fn read_cell(&self, name: &Name) -> Result<Cell> {
        let path = self.paths.cell(name);
        Ok(self.ask(PATIENCE, async |open| kept(open, &path).await).await?.cell)
    }

    pub(crate) async fn write_cell(&self, name: &Name, write: &Write) -> Result<Written> {
        let path = self.paths.cell(name);
        let (mut looks, mut sent) = (0, false);
        loop {
            let written = self.ask(PATIENCE, async |open| {
                loop {
                    let kept = kept(open, &path).await?;
                    if kept.id == Some(write.id) {
                        return Ok(Written::Yes { version: kept.cell.version });
                    }
                    if let Some(refused) = refused(&kept.cell, write) {
                        return Ok(refused);
                    }
                    sent = true;
                    if self.put(open, &path, &kept.cell, write).await? {
                        return Ok(Written::Yes { version: kept.cell.version + 1 });
                    }
                }
            });
            looks += 1;
            match written.await {
                // The session ended while it looked, as that of a process that stood still: the next one can do it.
                Err(error) if error.kind() == Kind::Unreachable && !sent && looks < LOOKS => {}
                written => return written,
            }
        }
    }

    /// Writes the cell if nobody else has written since. Whether it is written.
    async fn put(&self, open: &Open, path: &str, seen: &Cell, write: &Write) -> Result<bool, Fault> {
        let token = seen.token.max(write.token.unwrap_or(0));
        let data = [&write.id[..], &token.to_be_bytes(), &write.value].concat();
        let written = match seen.version.checked_sub(1).and_then(|version| i32::try_from(version).ok()) {
            Some(version) => open.client.set_data(path, &data, Some(version)).await.map(|_| ()),
            None => {
                let options = CreateMode::Persistent.with_acls(self.acls());
                open.client.create(path, &data, &options).await.map(|_| ())
            }
        };
        match written {
            Ok(()) => Ok(true),
            Err(Said::NoNode) if seen.version == 0 => {
                let above = path.rsplit_once('/').map_or(path, |(above, _)| above);
                self.make(open, above, CreateMode::Persistent).await?;
                Ok(false)
            }
            Err(Said::BadVersion | Said::NodeExists | Said::NoNode) => Ok(false),
            Err(said) => Err(said.into()),
        }
    }
}

/// Why a write is refused, if it is.
fn refused(cell: &Cell, write: &Write) -> Option<Written> {
    if write.token.is_some_and(|token| token < cell.token) {
        return Some(Written::Stale { newest: cell.token });
    }
    let version = cell.version;
    write.if_version.filter(|wanted| *wanted != version).map(|_| Written::Changed { version })
}

/// What the node of a cell has, as the leader knows it: a server that lags behind catches up first.
async fn kept(open: &Open, path: &str) -> Result<Kept, Fault> {
    let (sync, data) = (open.client.sync(path), open.client.get_data(path));
    match sync.await {
        Ok(()) | Err(Said::NoNode) => {}
        Err(said) => return Err(said.into()),
    }
    let (data, stat) = match data.await {
        Ok(found) => found,
        Err(Said::NoNode) => return Ok(Kept::default()),
        Err(said) => return Err(said.into()),
    };
    let foreign = || Fault::Foreign(path.to_owned());
    let (head, value) = data.split_at_checked(HEAD).ok_or_else(foreign)?;
    let (id, token) = head.split_at(16);
    let token = u64::from_be_bytes(token.try_into().map_err(|_| foreign())?);
    // ZooKeeper counts from 0, which is for a cell that was never written.
    let version = u64::try_from(stat.version).map_err(|_| foreign())? + 1;
    Ok(Kept { id: id.try_into().ok(), cell: Cell { version, token, value: value.to_vec() } })
}
