//! Giving a lock back, or leaving its line: the same thing.

use std::time::Duration;

use lockhouse_core::{Claim, Result, Withdrawal};

use crate::api::{Op, Outcome};
use crate::error::Fault;
use crate::kept::{Placed, Spot};
use crate::side::{Side, patience_for};

impl Side {
    /// Takes the claim's own key out, and the lock's own with it if the claim has it: one request.
    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        // What both sides of this client do not know of was not made by it, or is out already.
        let Some(spot) = self.kept.parting(&claim.id) else { return Ok(Withdrawal::NotThere) };
        let limit = patience_for(claim.ttl);
        // Nothing is on its way that could acquire the lock's own key just before the claim's is deleted.
        if let Some(placed) = spot.placed.filter(|_| spot.unanswered == 0) {
            let deleted = self.delete(claim, &spot, placed, limit).await.map_err(|fault| self.explain(fault))?;
            if deleted {
                self.kept.parted(&claim.id);
                return Ok(Withdrawal::Withdrawn);
            }
        }
        // Something is not as it was thought to be, or not known.
        let there = self.store.take_out(&claim.name, &spot.segment, limit).await;
        let there = there.map_err(|fault| self.explain(fault))?;
        match (there, spot.unanswered) {
            (_, 0) => self.kept.parted(&claim.id),
            // It was carried out: there is no other that could have made the claim.
            (true, 1) if spot.placed.is_none() => self.kept.parted(&claim.id),
            (true, _) => self.kept.displaced(&claim.id),
            (false, _) => {}
        }
        Ok(if there { Withdrawal::Withdrawn } else { Withdrawal::NotThere })
    }

    /// Deletes what a claim is thought to have. `false` when something is not as it was thought to be.
    async fn delete(&self, claim: &Claim, spot: &Spot, placed: Placed, limit: Duration) -> Result<bool, Fault> {
        let lock = self.store.keys.lock(&claim.name);
        let ops = if placed.sole {
            vec![Op::unchanged(&lock, placed.written), Op::delete(&lock)]
        } else {
            let key = self.store.keys.claim(&claim.name, &spot.segment);
            let held = spot.held.map(|held| Op::delete_at(&lock, held));
            [Op::is_of(&key, &spot.session), Op::delete(&key)].into_iter().chain(held).collect()
        };
        Ok(matches!(self.store.change(&ops, limit).await?, Outcome::Done(_)))
    }
}
