//! The keys of a client's claims: made, and deleted.

use lockhouse_core::{Claim, Happened, Result, Withdrawal};

use crate::error::Fault;
use crate::link::DELETE;
use crate::ops::{Outcome, delete, made_at, txn};
use crate::proto::{DeleteRequest, DeleteResponse, TxnRequest};
use crate::side::{Side, patience_for};

impl Side {
    /// Releases the claim or leaves the line. A key that was made for certain is deleted only as it was made, so that a
    /// request which comes late does no harm to who has the seat next. Otherwise nobody has the seat again.
    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<Withdrawal> {
        // What both sides of this client do not know of was not made by it, or is out already.
        let Some(spot) = self.kept.parting(&claim.id) else { return Ok(Withdrawal::NotThere) };
        let (key, limit) = (self.keys.seat(&claim.name, &spot.seat), patience_for(claim.ttl));
        let deleted = if let Some(made) = spot.made.filter(|_| spot.unanswered == 0) {
            let request = txn(vec![made_at(key.clone(), made)], vec![delete(key)], Vec::new());
            let deleted = self.change(&request, limit).await.map_err(|fault| self.explain(fault))?.succeeded;
            self.kept.vacate(claim);
            deleted
        } else {
            let answer: DeleteResponse = self.ask(DELETE, &DeleteRequest { key }, limit).await?;
            if spot.unanswered == 0 {
                self.kept.parted(&claim.id);
            }
            answer.deleted > 0
        };
        Ok(if deleted { Withdrawal::Withdrawn } else { Withdrawal::NotThere })
    }

    /// A transaction that may make the claim's key. `None` when the claim was withdrawn meanwhile.
    pub(crate) async fn make(&self, claim: &Claim, request: &TxnRequest) -> Result<Option<Outcome>, Fault> {
        if !self.kept.sending(&claim.id) {
            return Ok(None);
        }
        let outcome = self.change(request, patience_for(claim.ttl)).await;
        let in_vain = |fault: &Fault| self.explain(fault.clone()).may_have_happened() == Happened::No;
        if outcome.as_ref().err().is_none_or(in_vain) {
            self.kept.answered(&claim.id);
        }
        outcome.map(Some)
    }

    /// The key of a claim: that of its seat. One that is not known here has none, and there is no such key.
    pub(crate) fn key(&self, claim: &Claim) -> Vec<u8> {
        let seat = self.kept.spot(&claim.id).map_or(claim.id, |spot| spot.seat);
        self.keys.seat(&claim.name, &seat)
    }
}
