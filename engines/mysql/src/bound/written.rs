//! What is written down of claims that are bound to connections: who waits, and what others see of it.

use lockhouse_core::{Claim, Error};

use crate::bound::roster::conflict;
use crate::claims::values;
use crate::error::Fault;
use crate::pool::{Request, Session, column, set};
use crate::statement::{Tables, sql};

/// What the place of a claim among those who wait is.
#[derive(Debug)]
pub(crate) enum Joined {
    /// So many are there beside it.
    Queued(u32),
    /// An operator took it out.
    Evicted,
}

/// Writes down that a claim waits, or still waits.
#[derive(Debug)]
pub(crate) struct Joining<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) claim: &'a Claim,
}

impl Request for Joining<'_> {
    type Answer = Joined;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Joined, Fault> {
        let values = values(self.claim, &[]);
        let join = self.tables.write(sql!("bound/join"), &values);
        let (mut sets, mut at) = (session.write(&join).await?, 0);
        if set(&sets, 1)?.changed == 0 {
            let create = self.tables.write(sql!("create_lock"), &values);
            (sets, at) = (session.write(&format!("{create}{join}")).await?, 1);
        }
        let word = |at: usize| set(&sets, at)?.rows.first().ok_or_else(|| Fault::Answer("no place in line".into()));
        if column(word(at + 3)?, 0)? {
            return Ok(Joined::Evicted);
        }
        let others: u64 = column(word(at + 4)?, 0)?;
        Ok(Joined::Queued(u32::try_from(others.max(1)).unwrap_or(u32::MAX)))
    }
}

/// Looks whether others use the name as another kind of lock.
#[derive(Debug)]
pub(crate) struct Agreeing<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) claim: &'a Claim,
}

impl Request for Agreeing<'_> {
    type Answer = Result<(), Error>;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Self::Answer, Fault> {
        let sets = session.look(&self.tables.write(sql!("bound/capacity"), &values(self.claim, &[]))).await?;
        Ok(match set(&sets, 0)?.rows.first() {
            Some(row) => Err(conflict(column(row, 0)?, self.claim.capacity)),
            None => Ok(()),
        })
    }
}

/// Writes a holder's token back as a larger one.
#[derive(Debug)]
pub(crate) struct Raising<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) claim: &'a Claim,
}

impl Request for Raising<'_> {
    type Answer = ();

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        session.write(&self.tables.write(sql!("bound/raise"), &values(self.claim, &[]))).await.map(drop)
    }
}
