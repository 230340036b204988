//! One side of a client: its connections, and what it shares with the other side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockhouse_core::{Error, Result};
use prost::Message;

use crate::error::{Fault, explain};
use crate::kept::Kept;
use crate::keys::Keys;
use crate::link::{LOOK, Link, MEMBERS, Method, RANGE, TXN};
use crate::ops::Outcome;
use crate::proto::{MemberListResponse, Nothing, RangeRequest, RangeResponse, TxnRequest};
use crate::watch::Watches;

/// A request that is about no lease is given up after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// The shortest time a request is given.
const IMPATIENCE: Duration = Duration::from_millis(200);

/// One side of a client.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) link: Arc<Link>,
    pub(crate) keys: Keys,
    pub(crate) kept: Arc<Kept>,
    pub(crate) watches: Watches,
    /// How many members vote.
    pub(crate) voters: usize,
    /// Held by who asks for a lease. Not shared with the other side, whose runtime may stand still.
    pub(crate) granting: tokio::sync::Mutex<()>,
    /// Held by who keeps a lease alive, so that one request serves everybody who waits for it.
    pub(crate) tending: Mutex<HashMap<i64, Arc<tokio::sync::Mutex<()>>>>,
}

impl Side {
    /// Makes sure that a member answers, and counts them.
    pub(crate) async fn greet(link: Link, keys: Keys, kept: Arc<Kept>) -> Result<Self> {
        let mut side = Self {
            link: Arc::new(link),
            keys,
            kept,
            watches: Watches::default(),
            voters: 0,
            granting: tokio::sync::Mutex::default(),
            tending: Mutex::default(),
        };
        let list: MemberListResponse = side.ask(MEMBERS, &Nothing {}, PATIENCE).await?;
        side.voters = list.members.iter().filter(|member| !member.is_learner).count();
        Ok(side)
    }

    pub(crate) fn explain(&self, fault: Fault) -> Error {
        explain(fault, &self.link.address().to_string())
    }

    pub(crate) async fn ask<Q, A>(&self, method: Method, request: &Q, limit: Duration) -> Result<A>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.link.ask(method, request, limit).await.map_err(|fault| self.explain(fault))
    }

    /// Reads keys.
    pub(crate) async fn range(&self, range: &RangeRequest, limit: Duration) -> Result<RangeResponse> {
        self.ask(RANGE, range, limit).await
    }

    /// A transaction that may write.
    pub(crate) async fn change(&self, txn: &TxnRequest, limit: Duration) -> Result<Outcome, Fault> {
        Outcome::of(self.link.ask(TXN, txn, limit).await?)
    }

    /// A transaction that only reads.
    pub(crate) async fn look(&self, txn: &TxnRequest, limit: Duration) -> Result<Outcome, Fault> {
        Outcome::of(self.link.ask(LOOK, txn, limit).await?)
    }
}

/// How long a request about a claim of this lease may take.
pub(crate) fn patience_for(ttl: Duration) -> Duration {
    (ttl / 2).clamp(IMPATIENCE, PATIENCE)
}
