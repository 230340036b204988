//! What both sides of a client share: its claims, and the connections that hold locks for them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Claim, ClaimId, Error, Kind, Name, Renewal, Result};
use mysql_async::Opts;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::bound::connection::{Order, Outcome};
use crate::bound::connections::{Connections, Ordered};
use crate::bound::grip::{Grip, Taken};
use crate::bound::roster::{Number, Roster, Stage, TICK};
use crate::error::{ENGINE, explain};

/// What both sides of a client share: its claims, and the connections that hold locks for them.
#[derive(Debug)]
pub(crate) struct Ties {
    pub(crate) roster: Arc<Roster>,
    connections: Connections,
    /// How long the server honours a connection that it does not hear of.
    pub(crate) lasts: Duration,
    server: String,
}

/// What came of asking for a lock.
#[derive(Debug)]
pub(crate) enum Tried {
    /// It is the claim's, with this token.
    Granted(u64),
    /// Somebody else has it.
    Busy,
    /// Every connection is in use, and there must not be more.
    NoneFree,
    /// An operator took the claim out of the line.
    Evicted,
    /// The claim was withdrawn meanwhile.
    Unwanted,
    /// Nothing came of it: things have changed, and may be better at the next try.
    Again,
}

impl Ties {
    /// Called on the keeper's runtime, with its pool: connections and their tasks live there.
    pub(crate) fn new(options: Opts, server: String, lasts: Duration, most: usize, grip: Grip) -> Self {
        let roster = Arc::<Roster>::default();
        let connections = Connections::new(options, lasts, most, Arc::new(grip), Arc::clone(&roster));
        Self { roster, connections, lasts, server }
    }

    /// Has a connection take the lock.
    pub(crate) async fn take(&self, claim: &Claim, wait: Duration) -> Result<Tried> {
        let outcome = match self.connections.take(claim, wait) {
            Ordered::Sent(outcome) => outcome.await,
            Ordered::NotItsTurn => return Ok(Tried::Again),
            Ordered::NoneFree => return Ok(Tried::NoneFree),
        };
        match outcome {
            Ok(Outcome::Taken(Taken::Granted(token))) => Ok(Tried::Granted(token)),
            Ok(Outcome::Taken(Taken::Busy)) => Ok(Tried::Busy),
            Ok(Outcome::Taken(Taken::Evicted)) => Ok(Tried::Evicted),
            Ok(Outcome::Unwanted) => Ok(Tried::Unwanted),
            Ok(Outcome::NotSent) => Ok(Tried::Again),
            Ok(Outcome::Failed(fault)) => Err(explain(fault, &self.server)),
            Err(_) => Err(Error::new(Kind::Unreachable, format!("the connection to {} broke", self.server)).unknown()),
        }
    }

    /// Has a connection let go. `false` when it did not have it, or has ended.
    pub(crate) async fn let_go(&self, number: Number, id: &ClaimId, name: &Name) -> Result<bool> {
        let (answer, had) = oneshot::channel();
        match self.connections.get(number) {
            Some(connection) if connection.tell(Order::LetGo(*id, name.clone(), answer)) => {
                // A connection that ends takes with it what it had.
                Ok(had.await.unwrap_or(false))
            }
            _ => Ok(false),
        }
    }

    /// Waits until a connection has done what it has to do at present.
    pub(crate) async fn settle(&self, number: Number) {
        let (answer, spoken) = oneshot::channel();
        match self.connections.get(number) {
            Some(connection) if connection.tell(Order::Speak(answer)) => drop(spoken.await),
            // It is about to say so.
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }

    /// Has the server hear of every connection that holds one of these, and says which of them it answered.
    pub(crate) async fn speak(&self, known: &[Option<(Stage, bool)>], limit: Duration) -> HashMap<Number, Renewal> {
        let mut numbers: Vec<Number> = known.iter().filter_map(holder).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let each = numbers.into_iter().map(async |number| {
            let (answer, spoken) = oneshot::channel();
            let renewal = match self.connections.get(number) {
                Some(connection) if connection.tell(Order::Speak(answer)) => match timeout(limit, spoken).await {
                    Ok(Ok(())) => Renewal::Renewed,
                    Ok(Err(_)) => Renewal::Gone,
                    Err(_) => Renewal::Unknown,
                },
                _ => Renewal::Gone,
            };
            (number, renewal)
        });
        join_all(each).await.into_iter().collect()
    }

    /// There is no connection left for another lock.
    pub(crate) fn full(&self) -> Error {
        let most = self.connections.most();
        let what = format!("all {most} connections that this client may have hold a lock each");
        Error::new(Kind::Full, what).help("raise ?connections=, or hold fewer locks at a time").engine(ENGINE)
    }
}

fn holder(known: &Option<(Stage, bool)>) -> Option<Number> {
    match known {
        Some((Stage::Holds(number, _), _)) => Some(*number),
        _ => None,
    }
}

/// Ends claims that nobody renews, until the client is gone.
pub(crate) async fn end_leases(ties: Weak<Ties>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(ties) = ties.upgrade() else { return };
        for (id, name, stage) in ties.roster.expired() {
            if let Stage::Asks(number) | Stage::Holds(number, _) = stage
                && let Some(connection) = ties.connections.get(number)
            {
                let (answer, _) = oneshot::channel();
                connection.tell(Order::LetGo(id, name, answer));
            }
        }
    }
}
