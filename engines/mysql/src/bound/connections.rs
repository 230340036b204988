//! The connections of a client that hold its locks: few, and on the keeper's side.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::Claim;
use mysql_async::Opts;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::bound::connection::{Connection, Order, Outcome};
use crate::bound::grip::Grip;
use crate::bound::roster::{Number, Roster};
use crate::hold::Hold;

/// The connections that hold locks. Both sides use them; their tasks are the keeper's.
pub(crate) struct Connections {
    options: Opts,
    lasts: Duration,
    most: usize,
    grip: Arc<Grip>,
    roster: Arc<Roster>,
    keeper: Handle,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<Arc<Connection>>,
    newest: Number,
    tasks: JoinSet<()>,
}

/// What came of giving an order.
pub(crate) enum Ordered {
    /// It is on its way, and this will be the answer.
    Sent(oneshot::Receiver<Outcome>),
    /// It is not this claim's turn any more.
    NotItsTurn,
    /// Every connection is in use, and there must not be more.
    NoneFree,
}

impl Connections {
    /// None yet, and never more than so many. Called on the keeper's runtime.
    pub(crate) fn new(options: Opts, lasts: Duration, most: usize, grip: Arc<Grip>, roster: Arc<Roster>) -> Self {
        Self { options, lasts, most, grip, roster, keeper: Handle::current(), state: Mutex::default() }
    }

    /// Has some connection take the lock.
    pub(crate) fn take(&self, claim: &Claim, wait: Duration) -> Ordered {
        let mut state = self.state();
        let Some(connection) = self.pick(&mut state, !wait.is_zero()) else { return Ordered::NoneFree };
        let (answer, receiver) = oneshot::channel();
        let order = Order::Take(Box::new(claim.clone()), wait, answer);
        if self.roster.asks(&claim.id, connection.number, || connection.tell(order)) {
            Ordered::Sent(receiver)
        } else {
            Ordered::NotItsTurn
        }
    }

    /// The one with that number, if it has not ended.
    pub(crate) fn get(&self, number: Number) -> Option<Arc<Connection>> {
        self.state().connections.iter().find(|one| one.number == number && !one.is_over()).cloned()
    }

    /// How many there may be.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    fn pick(&self, state: &mut State, alone: bool) -> Option<Arc<Connection>> {
        state.connections.retain(|one| !one.is_over());
        while state.tasks.try_join_next().is_some() {}
        // A transaction has one row, and a wait has nothing else on its connection.
        let alone = alone || self.grip.tables.hold() == Hold::Row;
        let fit = |one: &&Arc<Connection>| !one.is_stuck() && (!alone || one.is_free());
        let best = state.connections.iter().filter(fit).min_by_key(|one| one.orders()).cloned();
        match best {
            Some(best) if best.orders() == 0 || state.connections.len() >= self.most => Some(best),
            None if state.connections.len() >= self.most => None,
            _ => {
                state.newest += 1;
                let (grip, roster) = (Arc::clone(&self.grip), Arc::clone(&self.roster));
                let (connection, task) =
                    Connection::new(state.newest, self.options.clone(), self.lasts, grip, roster);
                state.tasks.spawn_on(task, &self.keeper);
                let connection = Arc::new(connection);
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
