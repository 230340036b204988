//! The engine and the cell: what the contract says about them, with the real rule deciding who is granted.

use lockhouse_core::line::granted;

use crate::model::setup::{Mistake, Setup};
use crate::model::state::{Id, Message, Place, State};

/// Carries out one request, and sends its answer into the network.
pub(crate) fn execute(setup: &Setup, state: &mut State, request: Message) {
    match request {
        Message::Claim { id, age } => {
            claim(setup, state, id);
            let token = state.engine.line.iter().find(|place| place.id == id).and_then(|place| place.token);
            setup.send(
                state,
                match token {
                    Some(token) => Message::Granted { id, age, token },
                    None => Message::Queued { id, age },
                },
            );
        }
        Message::Renew { id, age } => {
            let answer = if renew(setup, state, id) { Message::Renewed { id, age } } else { Message::Gone { id } };
            setup.send(state, answer);
        }
        Message::Withdraw { id } => withdraw(setup, state, id),
        Message::Write { token } => write(setup, state, token),
        answer => unreachable!("not for the engine: {answer:?}"),
    }
}

/// Puts the claim in line or, if it is there already, renews its lease.
fn claim(setup: &Setup, state: &mut State, id: Id) {
    if renew(setup, state, id) {
        state.seen.claimed_again = true;
        if setup.mistake != Some(Mistake::SecondPlace) {
            return;
        }
    }
    state.engine.line.push(Place { id, token: None, lease: setup.ttl });
    // The newcomer learns of its grant from the answer, so nothing is pushed to it.
    grant(setup, state, Some(id));
}

/// `false` when there is no such claim: a renewal never revives one.
fn renew(setup: &Setup, state: &mut State, id: Id) -> bool {
    let place = state.engine.line.iter_mut().find(|place| place.id == id);
    place.map(|place| place.lease = setup.ttl).is_some()
}

fn withdraw(setup: &Setup, state: &mut State, id: Id) {
    let ended = if setup.mistake == Some(Mistake::ReleaseAnybody) {
        state.engine.line.iter().next().map(|first| first.id)
    } else {
        Some(id)
    };
    let before = state.engine.line;
    state.engine.line.retain(|place| Some(place.id) != ended);
    // Asked of the line itself rather than of the id above: what counts is who is missing.
    state.wrong.ended_anothers |= before.iter().any(|place| place.id != id && !state.engine.line.contains(place));
    grant(setup, state, None);
}

/// A tick of the engine's clock: leases run out, and those behind move up.
pub(crate) fn tick(setup: &Setup, state: &mut State) {
    let line = &mut state.engine.line;
    line.iter_mut().for_each(|place| place.lease -= 1);
    let holder_expired = line.iter().any(|place| place.lease == 0 && place.token.is_some());
    line.retain(|place| place.lease > 0);
    let before = state.engine.newest;
    grant(setup, state, None);
    state.seen.granted_by_expiry = holder_expired && state.engine.newest > before;
}

/// Grants what the rule says, tells the waiters among them, and numbers every grant.
fn grant(setup: &Setup, state: &mut State, asking: Option<Id>) {
    if setup.mistake == Some(Mistake::CounterDiesWithLine) && state.engine.line.len() == 0 {
        state.engine.counter = 0;
    }
    let weights = state.engine.line.iter().map(|place| setup.weights[place.id.client()]);
    let granted = granted(setup.capacity, weights);
    let mut pushes = [None; super::state::CLIENTS];
    let engine = &mut state.engine;
    for place in engine.line.iter_mut().take(granted).filter(|place| place.token.is_none()) {
        engine.counter += 1;
        place.token = Some(engine.counter);
        state.wrong.token_not_newer |= engine.counter <= engine.newest;
        engine.newest = engine.newest.max(engine.counter);
        if asking != Some(place.id) {
            pushes[place.id.client()] = Some(Message::Pushed { id: place.id, token: engine.counter });
        }
    }
    for push in pushes.into_iter().flatten() {
        setup.send(state, push);
    }
}

/// The cell writes if the token is not older than the newest it has seen.
fn write(setup: &Setup, state: &mut State, token: u8) {
    let cell = &mut state.cell;
    if token < cell.token && setup.mistake != Some(Mistake::CellTrusts) {
        state.seen.stale_refused = true;
        return;
    }
    state.wrong.stale_accepted |= token < cell.newest;
    cell.token = token;
    cell.newest = cell.newest.max(token);
}
