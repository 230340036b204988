//! The bolts of a client, as both its sides know them: which connection has shut which, and for how long it is wanted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockhouse_core::{Claim, ClaimId, Clock, Moment, Name};

/// Which connection.
pub(crate) type Number = u64;

/// What is known of the bolt of a claim that has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A connection is shutting it.
    Shuts(Number),
    /// A connection has shut it, for a reader or for one alone.
    Shut(Number, bool),
    /// A connection is opening it, or will when it knows whether it has shut it.
    Opens(Number),
    /// Its connection broke: it is to be shut again.
    Broken,
    /// Another program has the lock, as yet.
    Busy,
    /// It was shut, its connection broke, and now another program has the lock.
    Lost,
}

#[derive(Debug, Default)]
pub(crate) struct Bolts {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bolts: HashMap<ClaimId, Bolt>,
    /// Claims for which a turn is being asked, and whether they were withdrawn meanwhile.
    asking: HashMap<ClaimId, Asking>,
    /// No claim's lease is over before this.
    earliest: Option<Moment>,
}

#[derive(Debug, Default)]
struct Asking {
    requests: usize,
    withdrawn: bool,
}

#[derive(Debug)]
struct Bolt {
    name: Name,
    /// None when it is shut in advance, while the claim asks for its turn.
    token: Option<u64>,
    until: Moment,
    stage: Stage,
    /// It was shut in advance: nobody else seemed to want the lock.
    in_advance: bool,
    /// It was shut, so its claim may believe that it holds the lock.
    was_shut: bool,
}

impl Bolts {
    /// Where a claim's bolt stands, and the token that it is for: none when it is shut in advance.
    pub(crate) fn look(&self, id: &ClaimId) -> Option<(Stage, Option<u64>)> {
        self.state().bolts.get(id).map(|bolt| (bolt.stage, bolt.token))
    }

    /// Whether it is shut and was so in advance, and its claim has its turn: nobody else seems to want the lock.
    pub(crate) fn is_quiet(&self, id: &ClaimId) -> bool {
        let quiet = |bolt: &Bolt| bolt.in_advance && bolt.token.is_some() && matches!(bolt.stage, Stage::Shut(..));
        self.state().bolts.get(id).is_some_and(quiet)
    }

    /// A turn is being asked for, until this is dropped.
    pub(crate) fn ask(&self, id: &ClaimId) -> impl Drop + use<'_> {
        self.state().asking.entry(*id).or_default().requests += 1;
        Asked { bolts: self, id: *id }
    }

    /// A claim has its turn, or asks for it: its bolt is wanted for so long as its lease is. Where it stands; `None`
    /// when the claim was withdrawn meanwhile.
    pub(crate) fn wants(&self, claim: &Claim, token: Option<u64>) -> Option<Stage> {
        let until = Clock::Boot.now() + claim.ttl;
        let mut state = self.state();
        if !state.bolts.contains_key(&claim.id) && state.asking.get(&claim.id).is_none_or(|asking| asking.withdrawn) {
            return None;
        }
        state.earliest = Some(state.earliest.map_or(until, |earliest| earliest.min(until)));
        let (name, stage, in_advance) = (&claim.name, Stage::Busy, token.is_none());
        let new = || Bolt { name: name.clone(), token, until, stage, in_advance, was_shut: false };
        let bolt = state.bolts.entry(claim.id).or_insert_with(new);
        (bolt.until, bolt.token) = (bolt.until.max(until), bolt.token.max(token));
        Some(bolt.stage)
    }

    /// A connection is told to shut it, and says so: `None` when that makes no sense any more, or it cannot be told.
    ///
    /// It is told while nobody else can look: whoever wants it opened afterwards speaks to the same connection later.
    pub(crate) fn shuts<T>(&self, id: &ClaimId, connection: Number, tell: impl FnOnce() -> Option<T>) -> Option<T> {
        let mut state = self.state();
        let bolt = state.bolts.get_mut(id).filter(|bolt| matches!(bolt.stage, Stage::Broken | Stage::Busy))?;
        let told = tell()?;
        bolt.stage = Stage::Shuts(connection);
        Some(told)
    }

    /// Whether a connection that is to shut it still should.
    pub(crate) fn is_wanted(&self, id: &ClaimId, connection: Number) -> bool {
        self.stage(id) == Some(Stage::Shuts(connection))
    }

    /// A connection has shut it. `false` when nobody wants that any more, so it must be opened.
    pub(crate) fn shut(&self, id: &ClaimId, connection: Number, shared: bool) -> bool {
        let mut state = self.state();
        match state.bolts.get_mut(id).filter(|bolt| bolt.stage == Stage::Shuts(connection)) {
            Some(bolt) => {
                (bolt.stage, bolt.was_shut) = (Stage::Shut(connection, shared), true);
                true
            }
            None => false,
        }
    }

    /// A connection could not shut it.
    pub(crate) fn busy(&self, id: &ClaimId, connection: Number) {
        if let Some(bolt) = self.state().bolts.get_mut(id).filter(|bolt| bolt.stage == Stage::Shuts(connection)) {
            bolt.stage = if bolt.was_shut { Stage::Lost } else { Stage::Busy };
        }
    }

    /// A connection could not even try.
    pub(crate) fn untried(&self, id: &ClaimId, connection: Number) {
        if let Some(bolt) = self.state().bolts.get_mut(id).filter(|bolt| bolt.stage == Stage::Shuts(connection)) {
            bolt.stage = if bolt.was_shut { Stage::Broken } else { Stage::Busy };
        }
    }

    /// A writer's became a reader's.
    pub(crate) fn weakened(&self, id: &ClaimId, connection: Number) {
        self.change(id, connection, Stage::Shut(connection, true));
    }

    /// Another program has the lock, although it was shut.
    pub(crate) fn taken(&self, id: &ClaimId, connection: Number) {
        self.change(id, connection, Stage::Lost);
    }

    /// Whether that connection has shut it, and it is not open again.
    pub(crate) fn has(&self, id: &ClaimId, connection: Number) -> bool {
        matches!(self.stage(id), Some(Stage::Shut(on, _) | Stage::Opens(on)) if on == connection)
    }

    /// A connection that was to open it finds that it has not shut it.
    pub(crate) fn settle(&self, id: &ClaimId, connection: Number) {
        let mut state = self.state();
        if state.bolts.get(id).is_some_and(|bolt| bolt.stage == Stage::Opens(connection)) {
            state.bolts.remove(id);
        }
    }

    /// The claim was renewed.
    pub(crate) fn renewed(&self, claim: &Claim) {
        if let Some(bolt) = self.state().bolts.get_mut(&claim.id) {
            bolt.until = bolt.until.max(Clock::Boot.now() + claim.ttl);
        }
    }

    /// It is not wanted any more. What a connection has shut is known until it is open.
    pub(crate) fn leave(&self, id: &ClaimId) -> Option<Stage> {
        let mut state = self.state();
        if let Some(asking) = state.asking.get_mut(id) {
            asking.withdrawn = true;
        }
        state.leave(id)
    }

    /// It was shut in advance, and is not wanted unless the claim has got its turn by now.
    pub(crate) fn forgo(&self, id: &ClaimId) -> Option<Stage> {
        let mut state = self.state();
        let in_advance = state.bolts.get(id).is_some_and(|bolt| bolt.token.is_none());
        if in_advance { state.leave(id) } else { None }
    }

    /// It is open.
    pub(crate) fn opened(&self, id: &ClaimId) {
        self.state().bolts.remove(id);
    }

    /// A connection ended, and with it whatever it had shut.
    pub(crate) fn lost(&self, connection: Number) {
        self.state().bolts.retain(|_, bolt| {
            match bolt.stage {
                Stage::Shuts(on) if on == connection && !bolt.was_shut => bolt.stage = Stage::Busy,
                Stage::Shuts(on) | Stage::Shut(on, _) if on == connection => bolt.stage = Stage::Broken,
                _ => {}
            }
            bolt.stage != Stage::Opens(connection)
        });
    }

    /// Those whose lease is over. They are not wanted any more.
    pub(crate) fn expired(&self) -> Vec<(ClaimId, Name, Stage)> {
        let now = Clock::Boot.now();
        let mut state = self.state();
        if state.earliest.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let over = |bolt: &Bolt| bolt.until <= now && !matches!(bolt.stage, Stage::Opens(_));
        let over: Vec<(ClaimId, Name)> =
            state.bolts.iter().filter(|(_, bolt)| over(bolt)).map(|(id, bolt)| (*id, bolt.name.clone())).collect();
        let leave = |(id, name): (ClaimId, Name)| state.leave(&id).map(|stage| (id, name, stage));
        let gone = over.into_iter().filter_map(leave).collect();
        state.earliest = state.bolts.values().map(|bolt| bolt.until).min();
        gone
    }

    fn stage(&self, id: &ClaimId) -> Option<Stage> {
        self.look(id).map(|(stage, _)| stage)
    }

    /// What a connection has shut for one alone is something else now.
    fn change(&self, id: &ClaimId, connection: Number, to: Stage) {
        if let Some(bolt) = self.state().bolts.get_mut(id).filter(|bolt| bolt.stage == Stage::Shut(connection, false)) {
            bolt.stage = to;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request for a turn that goes on.
struct Asked<'a> {
    bolts: &'a Bolts,
    id: ClaimId,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut state = self.bolts.state();
        if let Some(asking) = state.asking.get_mut(&self.id) {
            asking.requests -= 1;
            if asking.requests == 0 {
                state.asking.remove(&self.id);
            }
        }
    }
}

impl State {
    fn leave(&mut self, id: &ClaimId) -> Option<Stage> {
        let bolt = self.bolts.get_mut(id)?;
        let before = bolt.stage;
        match before {
            Stage::Shuts(connection) | Stage::Shut(connection, _) => bolt.stage = Stage::Opens(connection),
            Stage::Opens(_) => {}
            Stage::Broken | Stage::Busy | Stage::Lost => drop(self.bolts.remove(id)),
        }
        Some(before)
    }
}
