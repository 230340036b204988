//! What is worth something only when replicas have it too.
//!
//! Redis replicates after it has answered. A replica that is made master has forgotten what had not reached it, and a
//! master that is cut off from its replicas goes on granting and renewing. With `?replicas=n` both count only when n
//! replicas have acknowledged them (`WAIT`, which is about what was written on the same connection before).

use std::time::Duration;

use lockhouse_core::{Claim, Error, Kind, Result, Withdrawal};
use redis::cmd;

use crate::answer::Answer;
use crate::link::Live;
use crate::server::{Server, patience_for};

/// The longest that acknowledgements are waited for: nothing else is answered on this connection meanwhile.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

impl Server {
    /// Whether enough replicas have what was written on this connection.
    pub(crate) async fn has_replicas(&self, ttl: Duration, on: &Live) -> Result<bool> {
        Ok(self.replicas == 0 || self.acknowledged(ttl, on).await? >= u64::from(self.replicas))
    }

    async fn acknowledged(&self, ttl: Duration, on: &Live) -> Result<u64> {
        let limit = (ttl / 4).min(LONGEST_WAIT);
        let mut command = cmd("WAIT");
        command.arg(self.replicas).arg(limit.as_millis().max(1).to_string());
        let answer = self.link.ask_on(on, command, limit + patience_for(ttl / 4)).await;
        answer.and_then(|value| Answer::of(value).count()).map_err(|fault| self.explain(fault))
    }

    /// Takes a grant back that too few replicas have: it may be forgotten at any time.
    pub(crate) async fn secure(&self, claim: &Claim, on: &Live) -> Result<()> {
        if self.replicas == 0 {
            return Ok(());
        }
        let acknowledged = self.acknowledged(claim.ttl, on).await?;
        if acknowledged >= u64::from(self.replicas) {
            return Ok(());
        }
        let what =
            format!("{acknowledged} of {} replicas have acknowledged the grant, so it was withdrawn", self.replicas);
        let help = "see redis-cli info replication, or ask for fewer with ?replicas=";
        match self.withdraw(claim).await {
            Ok(Withdrawal::Withdrawn | Withdrawal::NotThere) => Err(Error::new(Kind::Unreachable, what).help(help)),
            // It must not be asked for again before it is out: the withdrawal may come late, and end what was granted
            // since. So this is no error to ride out.
            Err(error) => Err(Error::new(Kind::Engine, what).unknown().help(help).because(error)),
        }
    }
}
