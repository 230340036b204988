//! The connections of a client that hold its locks: few, and on the keeper's side.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId};
use mysql_async::Opts;

use crate::bolt::bolts::{Bolts, Number};
use crate::bolt::connection::{Connection, Given, Order, Outcome, Shutting};
use crate::bolt::grip::{Entrance, Grip};
use crate::bolt::here::Tasks;
use crate::hold::Hold;

/// The connections that hold locks. Both sides use them; their tasks are the keeper's.
pub(crate) struct Connections {
    options: Opts,
    lasts: Duration,
    pub(crate) most: usize,
    grip: Arc<Grip>,
    bolts: Arc<Bolts>,
    tasks: Arc<Tasks>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<Arc<Connection>>,
    newest: Number,
}

/// What came of giving an order.
pub(crate) enum Ordered {
    /// It is on its way, and this will be the answer.
    Sent(Given<Outcome>),
    /// It makes no sense any more.
    Unwanted,
    /// Every connection is in use, and there must not be more.
    NoneFree,
}

impl Connections {
    /// None yet, and never more than so many. Called on the keeper's runtime.
    pub(crate) fn new(options: Opts, lasts: Duration, most: usize, grip: Grip, bolts: Arc<Bolts>) -> Self {
        let (grip, tasks) = (Arc::new(grip), Arc::new(Tasks::new()));
        Self { options, lasts, most, grip, bolts, tasks, state: Mutex::default() }
    }

    /// Has some connection shut the bolt of a claim.
    pub(crate) fn shut(&self, claim: &Claim) -> Ordered {
        let mut state = self.state();
        match self.pick(&mut state) {
            Some(connection) => self.order(&connection, claim, None),
            None => Ordered::NoneFree,
        }
    }

    /// Has a connection that holds nothing take a claim's turn and shut its bolt by one request.
    pub(crate) fn enter(&self, claim: &Claim, before: Option<ClaimId>) -> Ordered {
        let mut state = self.state();
        match self.pick(&mut state).filter(|connection| connection.is_free()) {
            Some(connection) => self.order(&connection, claim, Some(Entrance { claim: claim.clone(), before })),
            None => Ordered::NoneFree,
        }
    }

    fn order(&self, connection: &Connection, claim: &Claim, entrance: Option<Entrance>) -> Ordered {
        let (id, name, shared) = (claim.id, claim.name.clone(), claim.weight < claim.capacity);
        let shutting = Shutting { id, name, shared, entrance: entrance.map(Box::new) };
        let give = || connection.give(|answer| Order::Shut(shutting, answer));
        self.bolts.shuts(&claim.id, connection.number, give).map_or(Ordered::Unwanted, Ordered::Sent)
    }

    /// Whether there is a connection for one more.
    pub(crate) fn have_room(&self) -> bool {
        let mut state = self.state();
        state.connections.retain(|one| !one.is_over());
        self.grip.hold != Hold::Row
            || state.connections.len() < self.most
            || state.connections.iter().any(|one| one.is_free())
    }

    /// The one with that number, if it has not ended.
    pub(crate) fn get(&self, number: Number) -> Option<Arc<Connection>> {
        self.state().connections.iter().find(|one| one.number == number && !one.is_over()).cloned()
    }

    fn pick(&self, state: &mut State) -> Option<Arc<Connection>> {
        state.connections.retain(|one| !one.is_over());
        // A transaction lets go of all its rows at once, so each has one.
        let alone = self.grip.hold == Hold::Row;
        let fit = |one: &&Arc<Connection>| !one.is_stuck() && (!alone || one.is_free());
        let best = state.connections.iter().filter(fit).min_by_key(|one| (one.orders(), !one.is_free())).cloned();
        match best {
            Some(best) if best.orders() == 0 || state.connections.len() >= self.most => Some(best),
            None if state.connections.len() >= self.most => None,
            _ => {
                state.newest += 1;
                let (grip, bolts, tasks) = (&self.grip, &self.bolts, &self.tasks);
                let (grip, bolts, tasks) = (Arc::clone(grip), Arc::clone(bolts), Arc::clone(tasks));
                let connection =
                    Arc::new(Connection::new(state.newest, self.options.clone(), self.lasts, grip, bolts, tasks));
                state.connections.push(Arc::clone(&connection));
                Some(connection)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options know the password.
        f.debug_struct("Connections").field("most", &self.most).field("state", &self.state()).finish_non_exhaustive()
    }
}
