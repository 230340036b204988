//! What both sides of a client share: its bolts, and the connections that have shut them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Claim, ClaimId, Error, Kind, Name, QuietNames, Result};
use mysql_async::Opts;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::bolt::bolts::{Bolts, Number, Stage};
use crate::bolt::connection::{Left, Opening, Order, Outcome};
use crate::bolt::connections::{Connections, Ordered};
use crate::bolt::grip::Grip;
use crate::error::{ENGINE, explain};
use crate::hold::Hold;
use crate::statement::Value;

/// How often it is looked whether a claim's lease is over.
const TICK: Duration = Duration::from_millis(50);
/// Something has changed that will be known in a moment.
const A_MOMENT: Duration = Duration::from_millis(1);

/// What both sides of a client share: its bolts, and the connections that have shut them.
#[derive(Debug)]
pub(crate) struct Ties {
    pub(crate) bolts: Arc<Bolts>,
    connections: Connections,
    pub(crate) hold: Hold,
    /// How long the server honours a connection that it does not hear of.
    pub(crate) lasts: Duration,
    server: String,
    pub(crate) quiet_names: QuietNames,
}

/// Whether a claim has its bolt shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shut {
    /// It has, and its connection answers.
    Yes,
    /// Another program has the lock.
    Busy,
    /// It had, until its connection broke, and another program was faster to get the lock; or it was withdrawn.
    Lost,
    /// Every connection is in use, and there must not be more.
    NoneFree,
}

impl Ties {
    /// Called on the keeper's runtime: connections and their tasks live there.
    pub(crate) fn new(options: Opts, server: String, lasts: Duration, most: usize, grip: Grip) -> Self {
        let (bolts, hold) = (Arc::<Bolts>::default(), grip.hold);
        let connections = Connections::new(options, lasts, most, grip, Arc::clone(&bolts));
        Self { bolts, connections, hold, lasts, server, quiet_names: QuietNames::default() }
    }

    /// Shuts the bolt of a claim that has its turn, or makes sure that it is shut.
    ///
    /// # Cancellation safety
    /// What was begun goes on, until the bolt is opened or the claim's lease is over.
    pub(crate) async fn shut(&self, claim: &Claim, token: Option<u64>) -> Result<Shut> {
        let shared = claim.weight < claim.capacity;
        loop {
            match self.bolts.wants(claim, token) {
                None | Some(Stage::Lost) => return Ok(Shut::Lost),
                Some(Stage::Shut(connection, false)) if shared => self.weaken(connection, claim).await,
                Some(Stage::Shut(connection, _)) => {
                    if self.answers(connection).await {
                        return Ok(Shut::Yes);
                    }
                }
                Some(Stage::Shuts(connection) | Stage::Opens(connection)) => drop(self.answers(connection).await),
                Some(Stage::Broken | Stage::Busy) => {
                    let outcome = match self.connections.shut(claim) {
                        Ordered::Sent(given) => given.answer().await,
                        Ordered::NoneFree => return Ok(Shut::NoneFree),
                        Ordered::Unwanted => continue,
                    };
                    match outcome {
                        Some(Outcome::Shut(_)) => return Ok(Shut::Yes),
                        Some(Outcome::Busy) => {
                            let lost = matches!(self.bolts.look(&claim.id), Some((Stage::Lost, _)));
                            return Ok(if lost { Shut::Lost } else { Shut::Busy });
                        }
                        Some(Outcome::Unwanted) => return Ok(Shut::Lost),
                        Some(Outcome::NotSent) => {}
                        Some(Outcome::Failed(fault)) => return Err(explain(fault, &self.server)),
                        None => return Err(self.broken()),
                    }
                }
            }
        }
    }

    /// Has a claim take its turn and shut its bolt by one request: its token. `None` when it has none by this, whatever
    /// the reason.
    ///
    /// # Cancellation safety
    /// As that of [`Ties::shut`].
    pub(crate) async fn enter(&self, claim: &Claim, before: Option<ClaimId>) -> Option<u64> {
        self.bolts.wants(claim, None).filter(|stage| *stage == Stage::Busy)?;
        let Ordered::Sent(given) = self.connections.enter(claim, before) else { return None };
        match given.answer().await {
            Some(Outcome::Shut(token)) => token,
            _ => None,
        }
    }

    async fn weaken(&self, connection: Number, claim: &Claim) {
        let weaken = |answer| Order::Weaken(claim.id, claim.name.clone(), answer);
        match self.connections.get(connection).and_then(|connection| connection.give(weaken)) {
            Some(given) => drop(given.answer().await),
            None => tokio::time::sleep(A_MOMENT).await,
        }
    }

    /// Has the bolt of a claim opened, if it has one, and its claim leave its line with that, if it may and can: which
    /// is what this says. What a connection has shut is open when it ends.
    ///
    /// # Cancellation safety
    /// It is opened all the same.
    pub(crate) async fn open(&self, claim: &Claim, may_leave: bool) -> Left {
        let connection = match self.bolts.leave(&claim.id) {
            Some(Stage::Shuts(connection) | Stage::Shut(connection, _) | Stage::Opens(connection)) => Some(connection),
            Some(Stage::Broken | Stage::Busy | Stage::Lost) | None => None,
        };
        let connection = connection.and_then(|connection| self.connections.get(connection));
        let leaves = may_leave.then(|| Value::lease(claim));
        let opening = Opening { id: claim.id, name: claim.name.clone(), leaves };
        match connection.and_then(|connection| connection.give(|answer| Order::Open(opening, answer))) {
            // An answer that nobody is left to give is there as well.
            Some(given) => given.answer().await.unwrap_or(Ok(false)),
            None => Ok(false),
        }
    }

    /// The claim has no turn, or has it by now. If it has none, the bolt that was shut in advance is opened. Nobody
    /// waits for that.
    pub(crate) fn forgo(&self, claim: &Claim) {
        if let Some(stage) = self.bolts.forgo(&claim.id) {
            self.order_open(claim.id, claim.name.clone(), stage);
        }
    }

    /// Whether the bolt of a claim is shut while its turn is asked for. A row is not: it has a connection to itself,
    /// and who only waits takes none from others.
    pub(crate) fn in_advance(&self, claim: &Claim) -> bool {
        self.hold == Hold::Session && self.quiet_names.expect(claim)
    }

    fn order_open(&self, id: ClaimId, name: Name, stage: Stage) {
        if let Stage::Shuts(connection) | Stage::Shut(connection, _) = stage
            && let Some(connection) = self.connections.get(connection)
        {
            let (answer, _) = oneshot::channel();
            connection.tell(Order::Open(Opening { id, name, leaves: None }, answer));
        }
    }

    /// Whether a connection answers, after everything that it was told before.
    async fn answers(&self, connection: Number) -> bool {
        match self.connections.get(connection).and_then(|connection| connection.give(Order::Speak)) {
            Some(given) => given.answer().await.is_some(),
            // It is about to say so.
            None => {
                tokio::time::sleep(A_MOMENT).await;
                false
            }
        }
    }

    /// Has the server hear of every connection that has shut one of these, and says which of them it answered.
    pub(crate) async fn speak(&self, bolts: impl Iterator<Item = Stage>, limit: Duration) -> HashMap<Number, bool> {
        let shut_by = |stage| match stage {
            Stage::Shut(connection, _) => Some(connection),
            _ => None,
        };
        let mut connections: Vec<Number> = bolts.filter_map(shut_by).collect();
        connections.sort_unstable();
        connections.dedup();
        let each = connections
            .into_iter()
            .map(async |connection| (connection, timeout(limit, self.answers(connection)).await.unwrap_or(false)));
        join_all(each).await.into_iter().collect()
    }

    /// Whether this claim can have a bolt, beside those that there are.
    pub(crate) fn have_room(&self, id: &ClaimId) -> bool {
        self.bolts.look(id).is_some() || self.connections.have_room()
    }

    /// There is no connection left for another lock.
    pub(crate) fn full(&self) -> Error {
        let what =
            format!("all {} connections that this client may have for it hold a row each", self.connections.most);
        Error::new(Kind::Full, what).help("raise ?rows=, or use ?hold=session, which needs none for each")
    }

    /// No connection answered.
    pub(crate) fn silent(&self, limit: Duration) -> Error {
        Error::new(Kind::TimedOut, format!("{} did not answer within {limit:?}", self.server))
            .unknown()
            .help("see whether the server is overloaded or the network is slow")
    }

    fn broken(&self) -> Error {
        Error::new(Kind::Unreachable, format!("the connection to {} broke", self.server)).unknown().engine(ENGINE)
    }
}

/// Opens the bolts of claims whose lease is over, until the client is gone.
pub(crate) async fn open_expired(ties: Weak<Ties>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(ties) = ties.upgrade() else { return };
        for (id, name, stage) in ties.bolts.expired() {
            ties.order_open(id, name, stage);
        }
    }
}
