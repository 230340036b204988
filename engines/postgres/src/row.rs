//! Held by a row: locked by a transaction that does nothing else, on a connection of its own.

use async_trait::async_trait;
use lockhouse_core::{ClaimId, Name};
use tokio_postgres::types::Type;

use crate::error::{Fault, gave_up_waiting};
use crate::holding::Holding;
use crate::links::{Grip, Links};
use crate::said::Said;
use crate::tables::{Tables, sql};
use crate::way::{Left, Turn, Way};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const END: &str = "ROLLBACK";

/// Locks held by rows.
#[derive(Debug)]
pub(crate) struct Rows {
    links: Links,
    /// Each for what is held alone and for what is shared.
    take: [String; 2],
    wait: [String; 2],
    make: String,
}

impl Rows {
    pub(crate) fn new(links: Links, tables: &Tables) -> Self {
        let both = |alone: &str, shared: &str| [tables.fill(alone), tables.fill(shared)];
        Self {
            links,
            take: both(sql!("ask/row_try"), sql!("ask/row_try_shared")),
            wait: both(sql!("ask/row_wait"), sql!("ask/row_wait_shared")),
            make: tables.fill(sql!("ask/row_make")),
        }
    }

    /// Locks the row on this connection, with a statement that waits or does not. `false` when somebody has it.
    async fn lock(&self, link: &Holding, statement: &str, name: &Name) -> Result<bool, Fault> {
        loop {
            // Both are on their way at once.
            let name = (&name.as_str() as _, Type::TEXT);
            let locking = link.wait(statement, std::slice::from_ref(&name));
            let (begun, locked) = tokio::join!(biased; link.tell(BEGIN), locking);
            begun?;
            match locked {
                Ok(rows) if !rows.is_empty() => return Ok(true),
                // Made by itself, or it would be there only for us.
                Ok(_) => {
                    link.tell(END).await?;
                    link.ask(&self.make, &[name]).await?;
                }
                Err(fault) if gave_up_waiting(&fault) => {
                    link.tell(END).await?;
                    return Ok(false);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    async fn lock_by_own(&self, statement: &str, name: &Name) -> Result<Option<Grip>, Fault> {
        let Some(grip) = self.links.own().await? else { return Ok(None) };
        if self.lock(&grip.link, statement, name).await? {
            return Ok(Some(grip));
        }
        self.links.give_back(grip);
        Ok(None)
    }
}

#[async_trait]
impl Way for Rows {
    async fn take(&self, name: &Name, shared: bool) -> Result<Option<Grip>, Fault> {
        self.lock_by_own(&self.take[usize::from(shared)], name).await
    }

    async fn enter(&self, _: &Said) -> Result<Option<(Grip, Turn)>, Fault> {
        // A row's lock is a transaction, and what a transaction writes nobody else sees before it ends.
        Ok(None)
    }

    async fn wait(&self, name: &Name, shared: bool) -> Result<Option<Grip>, Fault> {
        self.lock_by_own(&self.wait[usize::from(shared)], name).await
    }

    async fn weaken(&self, grip: &Grip, name: &Name) -> Result<bool, Fault> {
        // A transaction cannot hold less than it did. Nobody of ours gets in between, since the lease goes on.
        grip.link.tell(END).await?;
        self.lock(&grip.link, &self.take[1], name).await
    }

    async fn give(&self, grip: Grip, _: &Name, _: bool, _: Option<ClaimId>) -> Result<Option<Left>, Fault> {
        grip.link.tell(END).await?;
        self.links.give_back(grip);
        Ok(None)
    }

    async fn end(&self, ghost: &Holding) -> Result<(), Fault> {
        self.links.end(ghost).await
    }

    fn has_room(&self) -> bool {
        self.links.has_room()
    }
}
