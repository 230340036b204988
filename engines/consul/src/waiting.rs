//! Waiting in line: each claim waits only for those who stand in its way, and only the first of a client's claims on a
//! name asks Consul for that.
//!
//! A blocking query is answered when its key changes, and takes a connection until then. The claims of a client that
//! wait behind another of its own are told by the client itself.

use std::time::Duration;

use lockhouse_core::{Claim, Result};

use crate::api::{Kv, read};
use crate::error::Fault;
use crate::http::Answer;
use crate::kept::Behind;
use crate::keys::escaped;
use crate::side::Side;
use crate::stored::Stored;
use crate::walk::is_in_the_way;

/// What an answer that takes long by intention is given on top.
const SLACK: Duration = Duration::from_secs(1);
/// How long a pause that another program asked for is left alone, at least and at most: nobody says when it is over.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(600));

impl Side {
    /// Whose leaving a claim waits for: the nearest of this client's own that stands in its way by itself, if there is
    /// one; otherwise the nearest that stand in its way together.
    pub(crate) fn behind(&self, claim: &Claim, met: &[&Stored], ahead: &[Stored]) -> Behind {
        let in_the_way = ahead.iter().rev().filter(|other| is_in_the_way(other, claim.weight));
        let mut own = in_the_way.filter_map(|other| Some((other, self.kept.leaving(&claim.name, other)?)));
        match own.next() {
            Some((other, leaving)) => {
                Behind::Here { leaving, next: ahead.last().is_some_and(|last| last.segment == other.segment) }
            }
            None => Behind::Keys(met.iter().map(|other| (other.key.clone(), other.written)).collect()),
        }
    }

    /// Resolves when somebody whom the claim waits for has left or changed.
    pub(crate) async fn moved(&self, claim: &Claim) -> Result<()> {
        // Nothing is known of who is ahead: whoever asks again finds out.
        let Some(behind) = self.kept.spot(&claim.id).and_then(|spot| spot.behind) else { return Ok(()) };
        match behind {
            Behind::Here { mut leaving, .. } => drop(leaving.changed().await),
            Behind::Gone => {}
            Behind::Pause => tokio::time::sleep(rand::random_range(PAUSE.0..PAUSE.1)).await,
            Behind::Keys(keys) => {
                // It is closed by nobody. Who gets none is woken by its own poll.
                let _watch = self.watches.acquire().await;
                let gone = self.until_changed(claim, &keys).await.map_err(|fault| self.explain(fault))?;
                if gone {
                    self.kept.let_past(&claim.id);
                }
            }
        }
        Ok(())
    }

    /// Resolves when one of these has changed, or when it is time to look. Whether the only one is gone.
    async fn until_changed(&self, claim: &Claim, keys: &[(String, u64)]) -> Result<bool, Fault> {
        let mut index = 0;
        loop {
            // Shorter than the poll that stands behind it, so that the connection can be used again; and not the same
            // for everybody.
            let wait = (claim.ttl * 2 / 5).mul_f64(rand::random_range(0.75..1.0)).min(Duration::from_secs(300));
            let path = match keys {
                [(key, written)] => format!("/v1/kv/{}?index={written}", escaped(key)),
                _ => format!("/v1/kv/{}?recurse&index={index}", escaped(&self.store.keys.line(&claim.name))),
            };
            // Consul adds up to a sixteenth.
            let limit = wait + wait / 16 + SLACK;
            let answer = self.store.link.wait(&format!("{path}&wait={}ms", wait.as_millis()), limit).await?;
            if keys.len() == 1 {
                return Ok(answer.status == 404);
            }
            if has_changed(&answer, keys)? {
                return Ok(false);
            }
            index = answer.index;
        }
    }
}

/// Whether one of these keys is not there as it was.
fn has_changed(answer: &Answer, keys: &[(String, u64)]) -> Result<bool, Fault> {
    if answer.status == 404 {
        return Ok(true);
    }
    let kvs: Vec<Kv> = read(answer)?;
    let same = |(key, written): &(String, u64)| kvs.iter().any(|kv| kv.key == *key && kv.written == *written);
    Ok(!keys.iter().all(same))
}
