//! The client: what its caller's side and its keeper do, and what it believes.
//!
//! A client that does nothing while time passes is a client that is paused, and the checker tries that at every point.
//! Its first step afterwards finds its clock moved on, so its check comes before its write, as in the library.

use crate::model::setup::{Mistake, Setup};
use crate::model::state::{Client, Message, Phase, State};

/// Something a client may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Makes a claim with a new id and sends it.
    Claim,
    /// Sends its claim again: it polls, or an answer was lost.
    Ask,
    /// The keeper renews its lease, waiting or holding.
    Renew,
    /// Checks that it holds, and writes to the cell under its token.
    Write,
    /// Releases or gives up, or says so once more. From here on it believes nothing.
    Withdraw,
    /// Forgets everything, and starts again as a process that knows no claim.
    Crash,
}

impl Deed {
    pub(crate) const ALL: [Self; 6] = [Self::Claim, Self::Ask, Self::Renew, Self::Write, Self::Withdraw, Self::Crash];

    /// Whether a client may do it now. What it would send must not be on its way already, and there must be room.
    pub(crate) fn is_possible(self, setup: &Setup, state: &State, client: usize) -> bool {
        let known = &state.clients[client];
        let in_time = known.left > 0 || setup.waits_past_its_time();
        let fits = match self {
            Self::Claim => {
                matches!(known.phase, Phase::Idle | Phase::Lost | Phase::Leaving) && known.made < setup.claims[client]
            }
            Self::Ask => known.phase == Phase::Waiting && in_time,
            Self::Renew => matches!(known.phase, Phase::Waiting | Phase::Holding { .. }) && in_time,
            Self::Write => matches!(known.phase, Phase::Holding { .. }) && known.left > 0,
            Self::Withdraw => known.phase != Phase::Idle,
            Self::Crash => matches!(known.phase, Phase::Waiting | Phase::Holding { .. }),
        };
        fits && self.message(state, client).is_none_or(|message| setup.has_room(state, message))
    }

    /// What is sent by it. `t0` is now: the moment before anything is sent.
    fn message(self, state: &State, client: usize) -> Option<Message> {
        let id = state.claim_of(client);
        Some(match (self, state.clients[client].phase) {
            (Self::Claim, _) => Message::Claim { id: id.next(), age: 0 },
            (Self::Ask, _) => Message::Claim { id, age: 0 },
            (Self::Renew, _) => Message::Renew { id, age: 0 },
            (Self::Write, Phase::Holding { token }) => Message::Write { token },
            (Self::Withdraw, _) => Message::Withdraw { id },
            (Self::Write | Self::Crash, _) => return None,
        })
    }
}

/// A client does something.
pub(crate) fn act(setup: &Setup, state: &mut State, client: usize, deed: Deed) {
    let message = deed.message(state, client);
    let known = &mut state.clients[client];
    match deed {
        Deed::Claim => {
            known.phase = Phase::Waiting;
            known.made += 1;
            // Not confirmed yet, and true all the same: if the engine has the claim, it has it since after t0.
            known.left = setup.reach();
        }
        Deed::Ask | Deed::Renew | Deed::Write => {}
        Deed::Withdraw => stop(known, Phase::Leaving),
        Deed::Crash => stop(known, Phase::Idle),
    }
    if let Some(message) = message {
        setup.send(state, message);
    }
}

/// A client is told something about its present claim.
pub(crate) fn hear(setup: &Setup, state: &mut State, client: usize, message: Message) {
    let known = &mut state.clients[client];
    match message {
        Message::Granted { age, token, .. } => {
            known.left = match setup.mistake {
                // Late answers are then not believed beyond their own t0. So it is the late push, which has none, that
                // shows the mistake: a real client drops an answer that it has stopped waiting for, but not a push.
                Some(Mistake::LapsedIdGoesOn | Mistake::AnswerRevives) => confirmed(setup, age),
                _ => known.left.max(confirmed(setup, age)),
            };
            believe(known, token);
        }
        Message::Queued { age, .. } | Message::Renewed { age, .. } => {
            known.left = known.left.max(confirmed(setup, age));
        }
        // A waiter may hear this because its renewal overtook its claim; it goes on asking.
        Message::Gone { .. } if known.phase == Phase::Waiting => {}
        Message::Gone { .. } => stop(known, Phase::Lost),
        Message::Pushed { token, .. } => state.seen.push_believed = believe(known, token),
        request => unreachable!("not for a client: {request:?}"),
    }
}

/// Whether a message may ever change anything. What is no news to its client, now and for ever, need not be delivered.
pub(crate) fn is_news(setup: &Setup, clients: &[Client], message: Message) -> bool {
    let Some(id) = message.addressee() else { return true };
    let known = clients[id.client()];
    let listens = match message {
        // Who holds asks no more, so nobody listens for answers to a claim.
        Message::Granted { .. } | Message::Queued { .. } | Message::Pushed { .. } => known.phase == Phase::Waiting,
        _ => matches!(known.phase, Phase::Waiting | Phase::Holding { .. }),
    };
    let extends = match message {
        // The age and the time left run on the same clock: what extends nothing now never will. With a mistake built
        // in, that need not be so.
        Message::Queued { age, .. } | Message::Renewed { age, .. } => {
            setup.mistake.is_some() || confirmed(setup, age) > known.left
        }
        _ => true,
    };
    id.number() == known.made && listens && extends
}

/// A tick of a client's clock. Its clock alone ends its belief, whatever the network does.
pub(crate) fn tick(setup: &Setup, state: &mut State, client: usize) {
    let known = &mut state.clients[client];
    if known.left > 0 {
        known.left -= 1;
        if known.left == 0 && setup.mistake != Some(Mistake::AnswerRevives) {
            match known.phase {
                Phase::Holding { .. } => {
                    stop(known, Phase::Lost);
                    state.seen.lost_by_clock = true;
                }
                // A claim that the engine may have dropped is over. To ask again under the same id would put it in line
                // anew, and then a grant of its first life, still on its way, would look like one of its second.
                Phase::Waiting if !setup.waits_past_its_time() => stop(known, Phase::Lost),
                _ => {}
            }
        }
    }
    for message in state.network.iter_mut() {
        if let Some((id, age)) = message.age_mut()
            && id.client() == client
        {
            *age = (*age + 1).min(setup.reach());
        }
    }
}

/// Ticks left of the validity that an answer confirms, when its request was sent `age` ticks ago.
fn confirmed(setup: &Setup, age: u8) -> u8 {
    match setup.mistake {
        Some(Mistake::ValidFromArrival) => setup.reach(),
        _ => setup.reach().saturating_sub(age),
    }
}

/// `false` when it came too late to be a grant, or is known.
fn believe(known: &mut Client, token: u8) -> bool {
    let believes = known.phase == Phase::Waiting && known.left > 0;
    if believes {
        known.phase = Phase::Holding { token };
    }
    believes
}

fn stop(known: &mut Client, phase: Phase) {
    known.phase = phase;
    known.left = 0;
}
