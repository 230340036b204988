//! The lock protocol, checked by trying everything that can happen.
//!
//! # The protocol
//! An engine keeps a line of claims, each with a lease, and numbers its grants with tokens; who is granted is decided
//! by [`lockhouse_core::line`], which is called here as it is. A client makes an id, notes the time `t0` on its own
//! clock, sends the claim, and from then on believes only this much:
//! - It holds from the moment it hears of its grant until `valid_until = t0 + ttl − margin`, where `t0` is the one of
//!   its latest request that was answered. Its own clock ends that belief; no message is needed for it.
//! - A claim whose `valid_until` passed is over, held or waiting: no answer that arrives later brings it back, and the
//!   next attempt has a new id.
//! - Whatever it does not hear, it does not know. It asks again, and every verb can be repeated.
//!
//! # What can happen
//! At any point: a client does one of the things that it can do, or nothing for as long as it likes (it is paused), or
//! crashes and starts anew; a message arrives, arrives and stays to arrive again, or is lost, in any order and after
//! any time; a tick passes on all clocks, or on all but one client's. A write that a client sends after checking its
//! hold arrives at the resource whenever it likes: for that there are tokens.
//!
//! # What is checked
//! Every state that can be reached within the bounds of a [`Setup`], against the properties in `model/world.rs`. The
//! bounds are the number of clients, of claims per client, of messages in flight, and of ticks in a lease; time and the
//! number of grants have none. Then the same with a [`Mistake`] built in, one at a time, which the check must find.
//!
//! Priorities, barging, impatient claims, eviction, downgrades, lingering and quorums are not in this model.

mod model {
    pub(crate) mod client;
    pub(crate) mod engine;
    pub(crate) mod few;
    pub(crate) mod setup;
    pub(crate) mod state;
    pub(crate) mod tokens;
    pub(crate) mod world;
}

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::model::setup::{Mistake, Setup};
use crate::model::state::State;
use crate::model::world::{self, Step};

/// The checker's threads where every state is visited.
const THREADS: usize = 2;

/// Walks through every state, asserts every property, and says how many states there are.
fn holds(name: &str, setup: Setup) -> usize {
    let start = Instant::now();
    let checker = setup.checker().threads(THREADS).spawn_bfs().join();
    let (unique, steps) = (checker.unique_state_count(), checker.state_count());
    eprintln!("{name}: {unique} states, {steps} steps, {:.1} s", start.elapsed().as_secs_f32());
    checker.assert_properties();
    unique
}

/// The shortest way to break the property, and that there is none shorter.
fn shortest(setup: &Setup, property: &'static str) -> Option<Path<State, Step>> {
    let mut found: Option<Path<State, Step>> = None;
    loop {
        let only = HasDiscoveries::AllOf([property].into());
        // One thread: several would reach some states by a detour first, and then none of the depths could be relied
        // on.
        let mut checker = setup.clone().checker().threads(1).finish_when(only);
        if let Some(path) = &found {
            // The first state has depth 1, and states of the target's depth are not looked at: so this leaves the
            // paths that are at least one step shorter.
            checker = checker.target_max_depth(path.clone().into_actions().len() + 1);
        }
        match checker.spawn_bfs().join().discovery(property) {
            Some(shorter) => found = Some(shorter),
            None => return found,
        }
    }
}

/// The mistake is found, by each of these properties.
fn is_found(setup: Setup, mistake: Mistake, properties: &[&'static str]) {
    let setup = setup.with(mistake);
    for property in properties {
        let path = shortest(&setup, property).unwrap_or_else(|| panic!("{mistake:?} does not break {property:?}"));
        let steps = path.into_actions();
        eprintln!("{mistake:?} breaks {property:?} in {} steps: {steps:?}", steps.len());
    }
}

#[test]
fn a_mutex_keeps_its_promises() {
    assert!(holds("mutex", Setup::mutex()) >= 1_000_000);
}

#[test]
fn a_read_write_lock_keeps_its_promises() {
    assert!(holds("read-write lock", Setup::readers_and_writer()) >= 1_000_000);
}

#[test]
fn a_mutex_keeps_its_promises_on_a_busy_network() {
    assert!(holds("mutex, busy network", Setup::busy_network()) >= 1_000_000);
}

#[test]
fn the_margin_covers_slow_clocks() {
    holds("mutex, slow clocks", Setup::slow_clocks());
}

#[test]
fn validity_from_the_arrival_of_the_answer_is_found() {
    is_found(Setup::mutex(), Mistake::ValidFromArrival, &[world::EXCLUSION]);
}

#[test]
fn releasing_whoever_holds_is_found() {
    is_found(Setup::mutex(), Mistake::ReleaseAnybody, &[world::OWN_ALONE, world::EXCLUSION]);
}

#[test]
fn a_resource_that_does_not_look_at_tokens_is_found() {
    is_found(Setup::mutex(), Mistake::CellTrusts, &[world::CELL_ORDER]);
}

#[test]
fn a_second_place_for_a_repeated_claim_is_found() {
    is_found(Setup::mutex(), Mistake::SecondPlace, &[world::ONE_PLACE]);
}

#[test]
fn a_lapsed_claim_that_goes_on_under_its_id_is_found() {
    // These two take many steps, so they are looked for in a smaller world.
    let setup = Setup { claims: [1, 1, 0], ttl: 3, ..Setup::mutex() };
    is_found(setup, Mistake::LapsedIdGoesOn, &[world::EXCLUSION]);
}

#[test]
fn an_answer_that_revives_a_lapsed_claim_is_found() {
    let setup = Setup { claims: [1, 1, 0], ..Setup::mutex() };
    is_found(setup, Mistake::AnswerRevives, &[world::EXCLUSION]);
}

#[test]
fn a_counter_that_starts_anew_is_found() {
    is_found(Setup::mutex(), Mistake::CounterDiesWithLine, &[world::TOKENS_GROW]);
}

#[test]
fn a_slow_clock_without_a_margin_is_found() {
    is_found(Setup::slow_clocks(), Mistake::NoMargin, &[world::EXCLUSION]);
}
