//! Held by a session: an advisory lock of the database.
//!
//! All locks of a client are had by one connection, on which nothing ever waits. Who has to wait for another program
//! does so on one of its own, and holds the lock by that.

use async_trait::async_trait;
use lockhouse_core::{ClaimId, Name};
use tokio_postgres::types::Type;

use crate::error::{Fault, gave_up_waiting};
use crate::holding::Holding;
use crate::links::{Grip, Links};
use crate::pool::Value;
use crate::said::Said;
use crate::server::get;
use crate::tables::{Tables, sql};
use crate::way::{Left, Turn, Way};

/// Locks held by sessions.
#[derive(Debug)]
pub(crate) struct Session {
    links: Links,
    /// Each for what is held alone and for what is shared.
    take: [String; 2],
    wait: [String; 2],
    give: [String; 2],
    /// With a claim's turn, for what is held alone.
    enter: String,
    /// With the claim, for what is held alone.
    leave: String,
}

impl Session {
    pub(crate) fn new(links: Links, tables: &Tables) -> Self {
        let both = |alone: &str, shared: &str| [tables.fill(alone), tables.fill(shared)];
        Self {
            links,
            take: both(sql!("ask/key_try"), sql!("ask/key_try_shared")),
            wait: both(sql!("ask/key_wait"), sql!("ask/key_wait_shared")),
            give: both(sql!("ask/key_give"), sql!("ask/key_give_shared")),
            enter: tables.fill(sql!("ask/key_enter")),
            leave: tables.fill(sql!("ask/key_leave")),
        }
    }

    async fn unlock(&self, link: &Holding, name: &Name, shared: bool) -> Result<(), Fault> {
        link.ask(&self.give[usize::from(shared)], &[(&name.as_str(), Type::TEXT)]).await.map(drop)
    }

    async fn leave(&self, link: &Holding, name: &Name, id: &ClaimId) -> Result<Option<Left>, Fault> {
        let values: [Value<'_>; 2] = [(&name.as_str(), Type::TEXT), (&id.as_bytes().as_slice(), Type::BYTEA)];
        let rows = link.ask(&self.leave, &values).await?;
        let row = rows.first().ok_or_else(|| Fault::Answer("it has no row".into()))?;
        let Some(was_there) = get::<Option<bool>>(row, 0)? else { return Ok(None) };
        Ok(Some(Left { was_there, micros: get(row, 1)? }))
    }
}

#[async_trait]
impl Way for Session {
    async fn take(&self, name: &Name, shared: bool) -> Result<Option<Grip>, Fault> {
        let grip = self.links.shared().await?;
        let rows = grip.link.ask(&self.take[usize::from(shared)], &[(&name.as_str(), Type::TEXT)]).await?;
        let row = rows.first().ok_or_else(|| Fault::Answer("it has no row".into()))?;
        Ok(get::<bool>(row, 0)?.then_some(grip))
    }

    async fn enter(&self, said: &Said) -> Result<Option<(Grip, Turn)>, Fault> {
        let grip = self.links.shared().await?;
        // What a statement wrote is taken back when it fails, but what it locked for its session is not.
        let rows = grip.link.ask(&self.enter, &said.values()).await.inspect_err(|_| grip.link.give_up())?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some((grip, Turn { token: get(row, 0)?, micros: get(row, 1)? })))
    }

    async fn wait(&self, name: &Name, shared: bool) -> Result<Option<Grip>, Fault> {
        let Some(grip) = self.links.own().await? else { return Ok(None) };
        match grip.link.wait(&self.wait[usize::from(shared)], &[(&name.as_str(), Type::TEXT)]).await {
            Ok(_) => Ok(Some(grip)),
            Err(fault) if gave_up_waiting(&fault) => {
                // The server may say so although the lock was granted in that moment, and a session keeps it then.
                self.unlock(&grip.link, name, shared).await?;
                self.links.give_back(grip);
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    async fn weaken(&self, grip: &Grip, name: &Name) -> Result<bool, Fault> {
        // Who has it alone does not wait for those who wait for it, as one that only tries would have to.
        grip.link.wait(&self.wait[1], &[(&name.as_str(), Type::TEXT)]).await?;
        self.unlock(&grip.link, name, false).await?;
        Ok(true)
    }

    async fn give(
        &self,
        grip: Grip,
        name: &Name,
        shared: bool,
        leaves: Option<ClaimId>,
    ) -> Result<Option<Left>, Fault> {
        if let Some(id) = leaves.filter(|_| !shared) {
            match self.leave(&grip.link, name, &id).await {
                Ok(left) => {
                    self.links.give_back(grip);
                    return Ok(left);
                }
                Err(fault) => tracing::debug!(?fault, %name, "a claim has to leave its line by itself"),
            }
        }
        self.unlock(&grip.link, name, shared).await?;
        self.links.give_back(grip);
        Ok(None)
    }

    async fn end(&self, ghost: &Holding) -> Result<(), Fault> {
        self.links.end(ghost).await
    }

    fn has_room(&self) -> bool {
        true
    }
}
