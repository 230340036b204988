//! Tokens by rank: two worlds whose tokens stand in the same order behave the same for ever.
//!
//! A token is only ever compared, so what it is does not matter, only what is older and newer than it. Numbering the
//! tokens that are still to be found somewhere from one upwards makes the worlds finitely many although grants never
//! end: without it, the check would have to stop after some number of grants.

use crate::model::state::{Message, Phase, State};

/// Numbers the tokens anew, in their order.
pub(crate) fn renumber(state: &mut State) {
    let mut used = 0u64;
    each(state, |token| used |= 1 << *token);
    let older_than = |token: u8| u8::try_from((used & ((1 << token) - 1)).count_ones()).unwrap_or(u8::MAX);
    each(state, |token| *token = older_than(*token) + 1);
    // The counter and the cell are compared with tokens and are none. The next grant must be newer than all there are;
    // and a cell that refuses nothing there is refuses nothing, whatever it has seen.
    for counter in [&mut state.engine.counter, &mut state.engine.newest] {
        *counter = older_than(*counter + 1);
    }
    for seen in [&mut state.cell.token, &mut state.cell.newest] {
        *seen = match older_than(*seen) {
            0 => 0,
            older => older + 1,
        };
    }
}

/// Visits every token that was granted and is still to be found.
fn each(state: &mut State, mut visit: impl FnMut(&mut u8)) {
    state.engine.line.iter_mut().filter_map(|place| place.token.as_mut()).for_each(&mut visit);
    for client in &mut state.clients {
        if let Phase::Holding { token } = &mut client.phase {
            visit(token);
        }
    }
    for message in state.network.iter_mut() {
        if let Message::Write { token } | Message::Granted { token, .. } | Message::Pushed { token, .. } = message {
            visit(token);
        }
    }
}
