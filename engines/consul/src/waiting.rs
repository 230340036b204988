//! Waiting in line: each claim waits only for those who stand in its way.
//!
//! Claims of this client are waited for without asking Consul: the client itself knows when they leave. Others' are
//! waited for by a blocking query for the key of each, so that a change in a line wakes only those whom it concerns.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockhouse_core::{Claim, Result};
use tokio::sync::watch;

use crate::api::Seen;
use crate::error::Fault;
use crate::kept::Behind;
use crate::side::Side;
use crate::stored::Stored;
use crate::walk::is_in_the_way;

/// The longest that one query is left waiting.
const LONGEST: Duration = Duration::from_secs(300);
/// Up to so many others are waited for by a query each. Who has to wait for more, which only claims on large
/// semaphores do, asks for the whole line instead.
const FEW: usize = 8;
/// How long a pause that another program asked for is left alone, at least and at most: nobody says when it is over.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(600));

impl Side {
    /// Whose leaving a claim waits for: the nearest of this client's own that stands in its way by itself, if there is
    /// one; otherwise the nearest that stand in its way together.
    pub(crate) fn behind(&self, claim: &Claim, met: &[&Stored], ahead: &[Stored]) -> Behind {
        let in_the_way = ahead.iter().rev().filter(|other| is_in_the_way(other, claim.weight));
        let mut own = in_the_way.filter_map(|other| Some((other, self.kept.leaving(&claim.name, other)?)));
        if let Some((other, leaving)) = own.next() {
            let next = ahead.last().is_some_and(|last| last.segment == other.segment);
            return Behind::Here { leaving, next };
        }
        let (mut keys, mut here) = (Vec::new(), Vec::new());
        for other in met {
            match self.kept.leaving(&claim.name, other) {
                Some(leaving) => here.push(leaving),
                None => keys.push((other.key.clone(), other.written)),
            }
        }
        Behind::Together { keys, here }
    }

    /// Resolves when somebody whom the claim waits for has left or changed.
    pub(crate) async fn moved(&self, claim: &Claim) -> Result<()> {
        // Nothing is known of who is ahead: whoever asks again finds out.
        let Some(behind) = self.kept.spot(&claim.id).and_then(|spot| spot.behind) else { return Ok(()) };
        match behind {
            Behind::Here { mut leaving, .. } => drop(leaving.changed().await),
            Behind::Gone => {}
            Behind::Pause => tokio::time::sleep(rand::random_range(PAUSE.0..PAUSE.1)).await,
            Behind::Together { keys, here } => {
                let changed = tokio::select! {
                    () = until_one_leaves(here) => Ok(true),
                    changed = self.until_one_changes(claim, &keys) => changed,
                };
                if changed.map_err(|fault| self.explain(fault))? {
                    self.kept.let_past(&claim.id);
                }
            }
        }
        Ok(())
    }

    /// Resolves when one of these has changed: `true`; or when it is time to look.
    async fn until_one_changes(&self, claim: &Claim, keys: &[Seen]) -> Result<bool, Fault> {
        if keys.is_empty() {
            // There are only claims of this client to wait for.
            return std::future::pending().await;
        }
        // Shorter than the poll that stands behind it, and not the same for everybody.
        let wait = (claim.ttl * 2 / 5).mul_f64(rand::random_range(0.75..1.0)).min(LONGEST);
        if keys.len() > FEW {
            return self.watches.until_line_changed(&self.store.keys.line(&claim.name), keys, wait).await;
        }
        let queries = keys.iter().map(|seen| self.watches.until_changed(seen, wait));
        let mut queries: FuturesUnordered<_> = queries.collect();
        while let Some(changed) = queries.next().await {
            if changed? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Resolves when one of this client's own claims has left or changed; never when there is none.
async fn until_one_leaves(here: Vec<watch::Receiver<()>>) {
    let leaving = here.into_iter().map(async |mut claim| drop(claim.changed().await));
    if leaving.collect::<FuturesUnordered<_>>().next().await.is_none() {
        std::future::pending().await
    }
}
