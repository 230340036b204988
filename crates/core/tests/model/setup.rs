//! The shape of the world that is checked: its bounds, its weights, and the mistake that is built in, if any.

use lockhouse_core::line::kind;

use crate::model::state::{CLIENTS, Message, State};

/// A mistake that real lock libraries make. With one of them built in, the check must fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A hold is thought valid for a lease from the arrival of the answer, not from before the request was sent.
    ValidFromArrival,
    /// A release frees whoever holds, without comparing the claim.
    ReleaseAnybody,
    /// The resource writes whatever it is told.
    CellTrusts,
    /// A claim that is repeated takes a second place in line.
    SecondPlace,
    /// A waiter whose lease may have ended goes on asking under the same id.
    LapsedIdGoesOn,
    /// An answer that arrives when the validity has run out, and nobody has noticed yet, gives it back.
    AnswerRevives,
    /// The counter of the tokens is kept with the line, and starts anew when the line was empty.
    CounterDiesWithLine,
    /// Nothing is taken off a lease for a clock that is slow.
    NoMargin,
}

/// The bounds of one check. Time and the number of grants are not among them.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) weights: [u32; CLIENTS],
    pub(crate) capacity: u32,
    /// How many claims each client makes, one after the other; zero leaves the client out.
    pub(crate) claims: [u8; CLIENTS],
    /// Messages on their way at once.
    pub(crate) in_flight: usize,
    /// Ticks of a lease.
    pub(crate) ttl: u8,
    /// Ticks that are missed by clients' clocks in one run. The margin must cover them.
    pub(crate) slips: u8,
    pub(crate) mistake: Option<Mistake>,
}

/// What is taken off a lease, in ticks.
const MARGIN: u8 = 1;
/// Short, and long enough for a request to be sent while its client is valid, to be carried out when the engine has
/// dropped the claim, and to be answered while that answer still counts. That takes more than twice the margin and one.
const TTL: u8 = 4;

impl Setup {
    /// A mutex and two clients, of which one comes twice: what is left over from its first claim meets its second.
    pub(crate) fn mutex() -> Self {
        Self {
            weights: [kind::MUTEX; CLIENTS],
            capacity: kind::MUTEX,
            claims: [2, 1, 0],
            in_flight: 2,
            ttl: TTL,
            slips: 0,
            mistake: None,
        }
    }

    /// Each client comes once, and the network has room for more confusion.
    pub(crate) fn busy_network() -> Self {
        Self { claims: [1, 1, 0], in_flight: 3, ..Self::mutex() }
    }

    /// Each client comes once, and their clocks may miss as many ticks as the margin covers.
    pub(crate) fn slow_clocks() -> Self {
        Self { claims: [1, 1, 0], slips: MARGIN, ..Self::mutex() }
    }

    /// Two readers and a writer. Three clients are many: the lease is as short as it can be.
    pub(crate) fn readers_and_writer() -> Self {
        Self {
            weights: [kind::READER, kind::READER, kind::WHOLE],
            capacity: kind::WHOLE,
            claims: [1, 1, 1],
            ttl: TTL - 1,
            ..Self::mutex()
        }
    }

    pub(crate) fn with(self, mistake: Mistake) -> Self {
        Self { mistake: Some(mistake), ..self }
    }

    /// Ticks from `t0` to the `valid_until` it gives.
    pub(crate) fn reach(&self) -> u8 {
        match self.mistake {
            Some(Mistake::NoMargin) => self.ttl,
            _ => self.ttl - MARGIN,
        }
    }

    /// Whether a waiter goes on although its lease may have ended. Who counts from the arrival of an answer has counted
    /// nothing before the first one.
    pub(crate) fn waits_past_its_time(&self) -> bool {
        matches!(self.mistake, Some(Mistake::LapsedIdGoesOn | Mistake::ValidFromArrival))
    }

    /// Whether a client can send this: there is room for it, and it would not be the same as what is on its way.
    pub(crate) fn has_room(&self, state: &State, message: Message) -> bool {
        state.network.len() < self.in_flight && !state.network.contains(message)
    }

    /// Sends it. A network that is full loses it, as it may lose anything.
    pub(crate) fn send(&self, state: &mut State, message: Message) {
        if self.has_room(state, message) {
            state.network.push(message);
        }
    }
}
