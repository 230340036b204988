//! The world as the checker walks through it: what can happen next, and what must hold.

use stateright::{Model, Property};

use crate::model::client::{self, Deed};
use crate::model::engine;
use crate::model::setup::Setup;
use crate::model::state::{CLIENTS, Message, State};
use crate::model::tokens;

/// One step of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A client does something.
    Client(usize, Deed),
    /// A message arrives.
    Deliver(Message),
    /// A message arrives, and will arrive again.
    Duplicate(Message),
    /// A message is lost.
    Lose(Message),
    /// Time passes on every clock.
    Tick,
    /// Time passes on every clock but this client's, which is slow.
    Slip(usize),
}

pub(crate) const EXCLUSION: &str = "valid holds never conflict";
pub(crate) const TOKENS_GROW: &str = "tokens of successive grants grow";
pub(crate) const CELL_ORDER: &str = "the cell accepts no token older than one it accepted before";
pub(crate) const OWN_ALONE: &str = "withdrawing ends nobody else's claim";
pub(crate) const ONE_PLACE: &str = "a claim never has two places in line";
pub(crate) const ENGINE_AGREES: &str = "who believes to hold, holds at the engine with that token";
pub(crate) const NOT_FENCED: &str = "the cell never refuses a valid holder that is alone";

impl Model for Setup {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.slips)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for client in 0..CLIENTS {
            let deeds = Deed::ALL.into_iter().filter(|deed| deed.is_possible(self, state, client));
            steps.extend(deeds.map(|deed| Step::Client(client, deed)));
            if state.slips > 0 && state.clients[client].left > 0 {
                steps.push(Step::Slip(client));
            }
        }
        for message in state.network.iter() {
            steps.extend([Step::Lose(message), Step::Duplicate(message), Step::Deliver(message)]);
        }
        steps.push(Step::Tick);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        state.seen = Default::default();
        match step {
            Step::Client(client, deed) => client::act(self, &mut state, client, deed),
            Step::Deliver(message) => {
                state.network.retain(|other| other != message);
                self.deliver(&mut state, message);
            }
            Step::Duplicate(message) => self.deliver(&mut state, message),
            Step::Lose(message) => state.network.retain(|other| other != message),
            Step::Tick => self.tick(&mut state, None),
            Step::Slip(client) => {
                state.slips -= 1;
                self.tick(&mut state, Some(client));
            }
        }
        // Worlds that cannot be told apart from here on become one.
        let clients = state.clients;
        state.network.retain(|message| client::is_news(self, &clients, message));
        // With a mistake built in, the check ends where it shows, and a person reads the trace: tokens stay as they
        // are.
        if self.mistake.is_none() {
            tokens::renumber(&mut state);
        }
        state.network.normalize();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(EXCLUSION, |setup: &Self, state: &State| {
                // Counted anew rather than by the rule that is checked.
                let held: u64 = state.holders().map(|(client, _)| u64::from(setup.weights[client])).sum();
                held <= u64::from(setup.capacity)
            }),
            Property::always(TOKENS_GROW, |_: &Self, state: &State| !state.wrong.token_not_newer),
            Property::always(CELL_ORDER, |_: &Self, state: &State| !state.wrong.stale_accepted),
            Property::always(OWN_ALONE, |_: &Self, state: &State| !state.wrong.ended_anothers),
            Property::always(ONE_PLACE, |_: &Self, state: &State| {
                let line = &state.engine.line;
                line.iter().all(|place| line.iter().filter(|other| other.id == place.id).count() == 1)
            }),
            Property::always(ENGINE_AGREES, |_: &Self, state: &State| {
                state.holders().all(|(client, token)| {
                    let id = state.claim_of(client);
                    state.engine.line.iter().any(|place| place.id == id && place.token == Some(token))
                })
            }),
            Property::always(NOT_FENCED, |setup: &Self, state: &State| {
                let alone = |client: usize| setup.weights[client] == setup.capacity;
                state.holders().all(|(client, token)| !alone(client) || token >= state.cell.token)
            }),
            Property::sometimes("a claim is granted", |_: &Self, state: &State| state.holders().next().is_some()),
            Property::sometimes("a waiter is granted because the holder's lease ended", |_: &Self, state: &State| {
                state.seen.granted_by_expiry
            }),
            Property::sometimes("a waiter believes a pushed grant", |_: &Self, state: &State| state.seen.push_believed),
            Property::sometimes("a stale write is refused", |_: &Self, state: &State| state.seen.stale_refused),
            Property::sometimes("a claim arrives that is in line already", |_: &Self, state: &State| {
                state.seen.claimed_again
            }),
            Property::sometimes("a hold is lost by the clock", |_: &Self, state: &State| state.seen.lost_by_clock),
        ];
        if self.weights.iter().any(|&weight| weight < self.capacity) {
            properties.extend([
                Property::sometimes("two hold together", |_: &Self, state: &State| state.holders().count() == 2),
                // Tokens order grants, and holders that share were granted one after the other. Who shares must not
                // fence its writes by its token: this is here so that it is known, not because it is wanted.
                Property::sometimes("the cell refuses a valid holder that shares", |_: &Self, state: &State| {
                    state.holders().any(|(_, token)| token < state.cell.token)
                }),
            ]);
        }
        properties
    }
}

impl Setup {
    fn deliver(&self, state: &mut State, message: Message) {
        match message.addressee() {
            Some(id) => client::hear(self, state, id.client(), message),
            None => engine::execute(self, state, message),
        }
    }

    fn tick(&self, state: &mut State, slow: Option<usize>) {
        for client in (0..CLIENTS).filter(|&client| Some(client) != slow) {
            client::tick(self, state, client);
        }
        engine::tick(self, state);
    }
}
