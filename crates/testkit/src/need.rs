//! What a case needs, as data: it selects the cases for an engine, and says which promise a case exercises.

use std::fmt;

use lockhouse_core::{CrashFrees, Exclusion, Guarantees, TokenSurvives, WakeUp};

use crate::subject::Subject;

/// What a case needs of an engine or of its subject. Needs that are promises also say what the case exercises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// Nobody else is in. Every engine.
    Excludes,
    /// Also among the processes of a machine.
    Processes,
    /// Tokens grow. Every engine.
    Tokens,
    /// Tokens survive a restart of every client.
    TokensSurviveClients,
    /// Tokens survive a crash of what keeps them.
    TokensSurviveCrash,
    /// Tokens survive the loss of a minority of the members.
    TokensSurviveMembers,
    /// First come, first served.
    Fair,
    /// Read-write locks.
    Shared,
    /// Semaphores.
    Permits,
    /// Priorities.
    Priority,
    /// Cells.
    Cells,
    /// Waiters learn of their turn, if only by asking. Every engine.
    Wakes,
    /// Waiters are told of their turn.
    Push,
    /// A crashed holder's lock is free some time after its lease at the latest. Every engine.
    CrashFrees,
    /// A crashed holder's lock is free as soon as the crash is noticed.
    CrashFreesAtOnce,
    /// A grant can outlive its process.
    Lingers,
    /// There is a shortest lease, and it works. Every engine.
    MinTtl,

    /// Read-write locks are not promised, and so are refused.
    NoShared,
    /// Semaphores are not promised, and so are refused.
    NoPermits,
    /// Priorities are not promised, and so are refused.
    NoPriority,
    /// Cells are not promised, and so are refused.
    NoCells,
    /// Grants that outlive their process are not promised, and so are refused.
    NoLingers,

    /// The subject has a saboteur.
    Sabotage,
    /// The subject has a server that may be stopped.
    Server,
    /// The subject has several members, of which some may be stopped.
    Members,
}

/// What can be done to a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Means {
    /// It has a saboteur.
    pub sabotage: bool,
    /// It has a server that may be stopped.
    pub server: bool,
    /// It has several members, of which some may be stopped.
    pub members: bool,
    /// Separate processes can be started that connect to it.
    pub processes: bool,
    /// Why there is no server of the suite's own.
    pub borrowed: Option<&'static str>,
}

impl Means {
    /// What can be done to this subject, in a suite that has a taker or not.
    #[must_use]
    pub fn of(subject: &dyn Subject, has_taker: bool) -> Self {
        Self {
            sabotage: subject.saboteur().is_some(),
            server: subject.has_server(),
            members: subject.has_members(),
            processes: has_taker && subject.url().is_some(),
            borrowed: subject.borrowed(),
        }
    }
}

impl Need {
    /// Everything an engine promises or, by not promising it, undertakes to refuse.
    #[must_use]
    pub fn promised(guarantees: &Guarantees) -> Vec<Self> {
        // No `..` here: a new field does not compile until it is decided which cases exercise it.
        let Guarantees {
            engine: _,
            exclusion,
            token,
            fair,
            shared,
            permits,
            priority,
            cells,
            wake_up,
            crash_frees,
            outlives_process,
            min_ttl: _,
        } = guarantees;
        let at_once = matches!(crash_frees, CrashFrees::Within(_));
        let always = [Self::Excludes, Self::Tokens, Self::Wakes, Self::CrashFrees, Self::MinTtl];
        let sometimes = [
            (*exclusion >= Exclusion::Machine, Self::Processes, None),
            (*token >= TokenSurvives::Clients, Self::TokensSurviveClients, None),
            (*token >= TokenSurvives::Crash, Self::TokensSurviveCrash, None),
            (*token >= TokenSurvives::Members, Self::TokensSurviveMembers, None),
            (*fair, Self::Fair, None),
            (*shared, Self::Shared, Some(Self::NoShared)),
            (*permits, Self::Permits, Some(Self::NoPermits)),
            (*priority, Self::Priority, Some(Self::NoPriority)),
            (*cells, Self::Cells, Some(Self::NoCells)),
            (*wake_up >= WakeUp::Push, Self::Push, None),
            (at_once, Self::CrashFreesAtOnce, None),
            (*outlives_process, Self::Lingers, Some(Self::NoLingers)),
        ];
        let chosen = sometimes.into_iter().filter_map(|(has, yes, no)| if has { Some(yes) } else { no });
        always.into_iter().chain(chosen).collect()
    }

    /// Whether this is a means of the subject's rather than a promise of the engine's: `None` when it is a promise.
    fn means(self, means: &Means) -> Option<bool> {
        match self {
            Self::Sabotage => Some(means.sabotage),
            Self::Server => Some(means.server),
            Self::Members => Some(means.members),
            _ => None,
        }
    }

    /// Whether an engine with these promises, and a subject with these means, meets the need.
    #[must_use]
    pub fn is_met(self, guarantees: &Guarantees, means: &Means) -> bool {
        self.means(means).unwrap_or_else(|| Self::promised(guarantees).contains(&self))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Excludes => "exclusion",
            Self::Processes => "exclusion among processes",
            Self::Tokens => "tokens that grow",
            Self::TokensSurviveClients => "tokens that survive a restart of every client",
            Self::TokensSurviveCrash => "tokens that survive a crash of what keeps them",
            Self::TokensSurviveMembers => "tokens that survive the loss of members",
            Self::Fair => "first come, first served",
            Self::Shared => "read-write locks",
            Self::Permits => "semaphores",
            Self::Priority => "priorities",
            Self::Cells => "cells",
            Self::Wakes => "waiters that learn of their turn",
            Self::Push => "waiters that are told of their turn",
            Self::CrashFrees => "a crashed holder's lock gets free",
            Self::CrashFreesAtOnce => "a crashed holder's lock gets free at once",
            Self::Lingers => "grants that outlive their process",
            Self::MinTtl => "a shortest lease",
            Self::NoShared => "an engine without read-write locks",
            Self::NoPermits => "an engine without semaphores",
            Self::NoPriority => "an engine without priorities",
            Self::NoCells => "an engine without cells",
            Self::NoLingers => "an engine whose grants end with their process",
            Self::Sabotage => "a subject with a saboteur",
            Self::Server => "a subject whose server may be stopped",
            Self::Members => "a subject whose members may be stopped",
        })
    }
}
