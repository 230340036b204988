//! What both sides of a client know of its claims that are bound to connections.
//!
//! The database lets one connection have a lock as often as it likes, so a client sees to it itself that its own claims
//! exclude each other: there is a line for each name here, and only who has a place at its head asks the database.
//! Claims that nobody renews end here too, by the boot clock, although their connection goes on.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::line::Room;
use lockhouse_core::{Claim, ClaimId, Clock, Error, Kind, Moment, Name, Patience};
use tokio::sync::Notify;

/// Which connection.
pub(crate) type Number = u64;

/// Where a claim stands, as far as this client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In line here.
    Waits,
    /// A connection is asking the database for it.
    Asks(Number),
    /// A connection has it.
    Holds(Number, u64),
    /// A connection is giving it back, or will when it knows whether it has it.
    Leaves(Number),
}

/// Whether a claim may ask the database.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It may.
    Yes,
    /// Others of this client are ahead; this is notified when that may have changed.
    NotYet(Arc<Notify>),
    /// A connection is at work for it, and knows more.
    At(Number),
    /// It has the lock.
    Granted(Number, u64),
    /// It is not known here.
    Gone,
}

#[derive(Debug, Default)]
pub(crate) struct Roster {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    claims: HashMap<ClaimId, Local>,
    names: HashMap<Name, Slot>,
    /// No lease ends before this.
    earliest: Option<Moment>,
}

#[derive(Debug)]
struct Local {
    name: Name,
    weight: u32,
    /// It is written down in the database, so that others see it.
    written: bool,
    stage: Stage,
    until: Moment,
    woken: Arc<Notify>,
}

/// The claims of this client on one name.
#[derive(Debug)]
struct Slot {
    capacity: u32,
    /// What those weigh that are at the database or have the lock.
    taken: u64,
    waiting: VecDeque<ClaimId>,
}

impl Roster {
    /// Takes a claim in, or notes that it was sent again.
    pub(crate) fn enter(&self, claim: &Claim) -> Result<Turn, Error> {
        let mut state = self.state();
        if let Some(local) = state.claims.get(&claim.id) {
            if claim.weight > local.weight {
                let what = format!("the claim weighs {}, and cannot be raised to {}", local.weight, claim.weight);
                return Err(Error::new(Kind::Invalid, what).help("there is no upgrade: release, then lock anew"));
            }
            return Ok(state.turn(&claim.id));
        }
        let slot = state.names.entry(claim.name.clone()).or_insert_with(|| Slot::new(claim.capacity));
        if slot.capacity != claim.capacity {
            return Err(conflict(slot.capacity, claim.capacity));
        }
        match claim.patience {
            Patience::Barges => slot.waiting.push_front(claim.id),
            Patience::None | Patience::Waits => slot.waiting.push_back(claim.id),
        }
        let until = Clock::Boot.now() + claim.ttl;
        let woken = Arc::new(Notify::new());
        let local = Local { name: claim.name.clone(), weight: claim.weight, written: false, stage: Stage::Waits, until, woken };
        state.claims.insert(claim.id, local);
        state.note(until);
        Ok(state.turn(&claim.id))
    }

    /// Whether a claim may ask the database.
    pub(crate) fn turn(&self, id: &ClaimId) -> Turn {
        self.state().turn(id)
    }

    /// A connection is told to ask for it: `false` when it may not, or not any more, or cannot be told.
    ///
    /// It is told while nobody else can look: whoever wants it back afterwards speaks to the same connection later.
    pub(crate) fn asks(&self, id: &ClaimId, connection: Number, tell: impl FnOnce() -> bool) -> bool {
        let mut state = self.state();
        if !matches!(state.turn(id), Turn::Yes) || !tell() {
            return false;
        }
        let Some(local) = state.claims.get_mut(id) else { return false };
        local.stage = Stage::Asks(connection);
        let (name, weight) = (local.name.clone(), local.weight);
        if let Some(slot) = state.names.get_mut(&name) {
            slot.taken += u64::from(weight);
            slot.waiting.pop_front();
        }
        // Readers go in one after the other.
        state.wake_next(&name);
        true
    }

    /// Whether the claim is still wanted, as its connection sees it.
    pub(crate) fn wanted(&self, id: &ClaimId) -> bool {
        self.state().claims.get(id).is_some_and(|local| matches!(local.stage, Stage::Asks(_)))
    }

    /// A connection has it. `false` when nobody wants it any more, so it must be given back.
    pub(crate) fn granted(&self, id: &ClaimId, connection: Number, token: u64) -> bool {
        let mut state = self.state();
        match state.claims.get_mut(id) {
            Some(local) if local.stage == Stage::Asks(connection) => {
                local.stage = Stage::Holds(connection, token);
                local.written = true;
                true
            }
            _ => false,
        }
    }

    /// Somebody else has it: back to the head of the line.
    pub(crate) fn refused(&self, id: &ClaimId, connection: Number) {
        self.state().refused(id, connection);
    }

    /// The claim's lease was renewed.
    pub(crate) fn renewed(&self, claim: &Claim) {
        if let Some(local) = self.state().claims.get_mut(&claim.id) {
            local.until = local.until.max(Clock::Boot.now() + claim.ttl);
        }
    }

    /// It is written down that it waits. `false` when it is not known any more.
    pub(crate) fn written(&self, id: &ClaimId) -> bool {
        self.state().claims.get_mut(id).map(|local| local.written = true).is_some()
    }

    /// Its token was raised.
    pub(crate) fn raised(&self, id: &ClaimId, token: u64) {
        if let Some(Local { stage: Stage::Holds(_, current), .. }) = self.state().claims.get_mut(id) {
            *current = token.max(*current);
        }
    }

    /// Whether that connection has it, or is to give it back.
    pub(crate) fn has(&self, id: &ClaimId, connection: Number) -> bool {
        let stage = self.stage(id);
        matches!(stage, Some(Stage::Holds(on, _) | Stage::Leaves(on)) if on == connection)
    }

    /// Whether that connection is to give it back.
    pub(crate) fn leaves(&self, id: &ClaimId, connection: Number) -> bool {
        self.stage(id) == Some(Stage::Leaves(connection))
    }

    /// Where it stands.
    pub(crate) fn stage(&self, id: &ClaimId) -> Option<Stage> {
        self.look(id).map(|(stage, _)| stage)
    }

    /// Where it stands, and whether it is written down.
    pub(crate) fn look(&self, id: &ClaimId) -> Option<(Stage, bool)> {
        self.state().claims.get(id).map(|local| (local.stage, local.written))
    }

    /// It leaves. What a connection has, or may have, is in its place until the connection gave it back.
    pub(crate) fn leave(&self, id: &ClaimId) -> Option<(Stage, bool)> {
        let mut state = self.state();
        let written = state.claims.get(id)?.written;
        Some((state.leave(id)?, written))
    }

    /// A connection gave it back, or never had it.
    pub(crate) fn left(&self, id: &ClaimId) {
        self.state().remove(id);
    }

    /// A connection ended, and everything that it had. What it only asked for is in line again.
    pub(crate) fn lost(&self, connection: Number) {
        let mut state = self.state();
        let on_it = |local: &Local| match local.stage {
            Stage::Waits => false,
            Stage::Asks(on) | Stage::Holds(on, _) | Stage::Leaves(on) => on == connection,
        };
        let lost: Vec<ClaimId> = state.claims.iter().filter(|(_, local)| on_it(local)).map(|(id, _)| *id).collect();
        for id in &lost {
            state.refused(id, connection);
            if state.claims.get(id).is_some_and(|local| local.stage != Stage::Waits) {
                state.remove(id);
            }
        }
    }

    /// Those whose lease is over. They leave.
    pub(crate) fn expired(&self) -> Vec<(ClaimId, Name, Stage)> {
        let now = Clock::Boot.now();
        let mut state = self.state();
        if state.earliest.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let over = |local: &Local| local.until <= now && !matches!(local.stage, Stage::Leaves(_));
        let over: Vec<ClaimId> = state.claims.iter().filter(|(_, local)| over(local)).map(|(id, _)| *id).collect();
        let leave = |id: &ClaimId| {
            let name = state.claims.get(id)?.name.clone();
            Some((*id, name, state.leave(id)?))
        };
        let gone = over.iter().filter_map(leave).collect();
        state.earliest = state.claims.values().map(|local| local.until).min();
        gone
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, until: Moment) {
        self.earliest = Some(self.earliest.map_or(until, |earliest| earliest.min(until)));
    }

    fn turn(&self, id: &ClaimId) -> Turn {
        let Some(local) = self.claims.get(id) else { return Turn::Gone };
        match local.stage {
            Stage::Asks(connection) | Stage::Leaves(connection) => Turn::At(connection),
            Stage::Holds(connection, token) => Turn::Granted(connection, token),
            Stage::Waits => {
                let may = self.names.get(&local.name).is_some_and(|slot| {
                    slot.waiting.front() == Some(id) && Room::beside(slot.capacity, slot.taken).admit(local.weight)
                });
                if may { Turn::Yes } else { Turn::NotYet(Arc::clone(&local.woken)) }
            }
        }
    }

    fn refused(&mut self, id: &ClaimId, connection: Number) {
        let Some(local) = self.claims.get_mut(id).filter(|local| local.stage == Stage::Asks(connection)) else {
            return;
        };
        local.stage = Stage::Waits;
        if let Some(slot) = self.names.get_mut(&local.name) {
            slot.taken = slot.taken.saturating_sub(local.weight.into());
            slot.waiting.push_front(*id);
        }
    }

    fn leave(&mut self, id: &ClaimId) -> Option<Stage> {
        let local = self.claims.get_mut(id)?;
        let before = local.stage;
        match before {
            Stage::Waits => self.remove(id),
            Stage::Asks(connection) | Stage::Holds(connection, _) => local.stage = Stage::Leaves(connection),
            Stage::Leaves(_) => {}
        }
        Some(before)
    }

    fn remove(&mut self, id: &ClaimId) {
        let Some(local) = self.claims.remove(id) else { return };
        let Some(slot) = self.names.get_mut(&local.name) else { return };
        if local.stage == Stage::Waits {
            slot.waiting.retain(|waiting| waiting != id);
        } else {
            slot.taken = slot.taken.saturating_sub(local.weight.into());
        }
        // Whoever sleeps on it finds out that it is gone.
        local.woken.notify_one();
        if slot.waiting.is_empty() && slot.taken == 0 {
            self.names.remove(&local.name);
        } else {
            self.wake_next(&local.name);
        }
    }

    fn wake_next(&self, name: &Name) {
        let next = self.names.get(name).and_then(|slot| slot.waiting.front());
        if let Some(next) = next.and_then(|next| self.claims.get(next)) {
            next.woken.notify_one();
        }
    }
}

impl Slot {
    fn new(capacity: u32) -> Self {
        Self { capacity, taken: 0, waiting: VecDeque::new() }
    }
}

/// Claims of one name must say the same capacity.
pub(crate) fn conflict(in_use: u32, asked: u32) -> Error {
    Error::new(Kind::Conflict, format!("the name is in use with capacity {in_use}, not {asked}"))
        .help("use one kind of lock, and one number of permits, for a name")
}

/// The longest time between two looks at leases that are over.
pub(crate) const TICK: Duration = Duration::from_millis(50);
