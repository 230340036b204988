//! What the checker knows of the world at one moment.
//!
//! There is no absolute time in it. A lease is the ticks it has left, a validity likewise, and a message carries the
//! age of its `t0`. Nothing depends on when the world began, so runs of any length are covered by finitely many states.

use std::fmt;

use crate::model::few::Few;

/// The most clients a setup can have.
pub(crate) const CLIENTS: usize = 3;
/// The most claims in one line.
const PLACES: usize = 6;
/// The most messages in flight; a setup may permit fewer.
pub(crate) const IN_FLIGHT: usize = 4;

/// The id of a claim: whose, and the how many-eth. Claims of one client never share an id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(u8);

impl Id {
    pub(crate) fn new(client: usize, number: u8) -> Self {
        debug_assert!(client < CLIENTS && number < 16);
        Self(u8::try_from(client).unwrap_or(u8::MAX) << 4 | number)
    }

    /// The id of the same client's next claim.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub(crate) fn client(self) -> usize {
        usize::from(self.0 >> 4)
    }

    pub(crate) fn number(self) -> u8 {
        self.0 & 15
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", ["A", "B", "C"][self.client()], self.number())
    }
}

/// Something on its way. It may be delivered at any later time, several times, or never.
///
/// `age` is how many ticks ago, on its client's clock, the request was sent: the answer carries the age of its request,
/// since that is the `t0` it confirms. Ages stop growing where they make no more difference.
///
/// Withdrawals and writes are not answered here, because nothing that a client believes rests on those answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Claim {
        id: Id,
        age: u8,
    },
    Renew {
        id: Id,
        age: u8,
    },
    Withdraw {
        id: Id,
    },
    /// A write to the cell by a client that checked its hold before it sent it. Whatever may happen to the client
    /// between its check and its write, such as a long pause, shows as a write that arrives late.
    Write {
        token: u8,
    },
    Granted {
        id: Id,
        age: u8,
        token: u8,
    },
    Queued {
        id: Id,
        age: u8,
    },
    Renewed {
        id: Id,
        age: u8,
    },
    Gone {
        id: Id,
    },
    /// The engine tells a waiter on its own that it is granted now: not an answer, so it confirms no `t0`.
    Pushed {
        id: Id,
        token: u8,
    },
}

impl Message {
    /// Who is told by it; `None` when it goes to the engine or the cell.
    pub(crate) fn addressee(self) -> Option<Id> {
        match self {
            Self::Granted { id, .. }
            | Self::Queued { id, .. }
            | Self::Renewed { id, .. }
            | Self::Gone { id }
            | Self::Pushed { id, .. } => Some(id),
            Self::Claim { .. } | Self::Renew { .. } | Self::Withdraw { .. } | Self::Write { .. } => None,
        }
    }

    /// The age of its `t0` and whose clock it is counted on.
    pub(crate) fn age_mut(&mut self) -> Option<(Id, &mut u8)> {
        match self {
            Self::Claim { id, age }
            | Self::Renew { id, age }
            | Self::Granted { id, age, .. }
            | Self::Queued { id, age }
            | Self::Renewed { id, age } => Some((*id, age)),
            Self::Withdraw { .. } | Self::Write { .. } | Self::Gone { .. } | Self::Pushed { .. } => None,
        }
    }
}

/// What a client is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It knows of no claim: it has just started, for the first time or after a crash.
    Idle,
    /// It asked, and does not know yet that it was granted.
    Waiting,
    /// It believes that the lock is its own.
    Holding { token: u8 },
    /// Its time was up, or the engine said that the claim is gone.
    Lost,
    /// It released or gave up, and withdraws until it is sure.
    Leaving,
}

/// One client: `made` is the number of its present claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) made: u8,
    /// Ticks on its own clock until `valid_until`. Above zero while it waits or holds, if all is right.
    pub(crate) left: u8,
}

/// One claim in the engine's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) id: Id,
    /// `None` while it waits.
    pub(crate) token: Option<u8>,
    /// Ticks until its lease ends. Never zero: then it is out of the line.
    pub(crate) lease: u8,
}

/// The engine: one line, and the counter that its tokens come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Engine {
    pub(crate) line: Few<Place, PLACES>,
    pub(crate) counter: u8,
    /// The newest token ever granted. For the oracle: the engine decides nothing by it.
    pub(crate) newest: u8,
}

/// The resource: it remembers the newest token that it has seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) token: u8,
    /// The newest token it accepted. For the oracle: the cell decides nothing by it.
    pub(crate) newest: u8,
}

/// What the last step was, where it is something that must be seen to happen. Forgotten by the next step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) granted_by_expiry: bool,
    pub(crate) stale_refused: bool,
    pub(crate) claimed_again: bool,
    pub(crate) lost_by_clock: bool,
    pub(crate) push_believed: bool,
}

/// What must never happen, as noticed in the step where it happens. Never forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wrong {
    pub(crate) token_not_newer: bool,
    pub(crate) stale_accepted: bool,
    pub(crate) ended_anothers: bool,
}

/// The world at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) engine: Engine,
    pub(crate) cell: Cell,
    pub(crate) network: Few<Message, IN_FLIGHT>,
    /// How often a client's clock may still miss a tick.
    pub(crate) slips: u8,
    pub(crate) seen: Seen,
    pub(crate) wrong: Wrong,
}

impl State {
    /// Nobody has done anything.
    pub(crate) fn new(slips: u8) -> Self {
        Self {
            clients: [Client { phase: Phase::Idle, made: 0, left: 0 }; CLIENTS],
            engine: Engine { line: Few::new(), counter: 0, newest: 0 },
            cell: Cell { token: 0, newest: 0 },
            network: Few::new(),
            slips,
            seen: Seen::default(),
            wrong: Wrong::default(),
        }
    }

    /// The present claim of a client.
    pub(crate) fn claim_of(&self, client: usize) -> Id {
        Id::new(client, self.clients[client].made)
    }

    /// The clients that believe to hold, by their own clocks, and their tokens.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        self.clients.iter().enumerate().filter_map(|(client, known)| match known.phase {
            Phase::Holding { token } if known.left > 0 => Some((client, token)),
            _ => None,
        })
    }
}
