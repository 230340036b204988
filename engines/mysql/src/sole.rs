//! The claim that stands in its lock's own row, because nobody else is beside it.

use lockhouse_core::line::Room;
use lockhouse_core::{Claim, ClaimId, Error, Standing};
use mysql_async::Row;

use crate::error::Fault;
use crate::line::{agree, id};
use crate::pool::column;

/// The claim in a lock's row.
#[derive(Debug)]
pub(crate) struct Sole {
    id: ClaimId,
    weight: u32,
    capacity: u32,
    lives: bool,
}

impl Sole {
    /// Reads what `peek.sql` found.
    pub(crate) fn read(row: &Row) -> Result<Self, Fault> {
        Ok(Self { id: id(row, 0)?, weight: column(row, 1)?, capacity: column(row, 2)?, lives: column(row, 3)? })
    }

    /// What a newcomer hears that would not wait, when there is no room beside this one.
    pub(crate) fn turns_away(&self, claim: &Claim) -> Option<Result<Standing, Error>> {
        if !self.lives || self.id == claim.id {
            return None;
        }
        if let Err(conflict) = agree(self.capacity, claim) {
            return Some(Err(conflict));
        }
        let fits = Room::beside(self.capacity, self.weight.into()).admit(claim.weight);
        (!fits).then_some(Ok(Standing::Refused))
    }
}
