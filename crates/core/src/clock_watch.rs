//! The claims of a client, and on which setting of the server's clock their leases were made: for engines whose server
//! ends leases by a wall clock, which somebody can set.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::claim::{Claim, ClaimId};
use crate::clock::{Clock, Moment};
use crate::drift::Drift;
use crate::engine::{Renewal, Standing};

/// What both sides of a client know together of their server's clock, and of the leases that were made by it.
///
/// An engine whose server ends leases by its wall clock tells it the server's time with each answer. When that moves
/// against our own clock by more than two clocks can differ, every lease that was made before is worth nothing.
#[derive(Debug, Default)]
pub struct ClockWatch {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The clock of each server process that was met: after a fail-over there are two, which may differ. So few are
    /// found faster by looking at each than by hashing, and every answer looks.
    clocks: Vec<(String, Drift)>,
    /// How often a server's clock was seen to be set.
    settings: u64,
    claims: HashMap<ClaimId, Lease>,
    /// Forgotten claims are cleared away when there are more than this.
    clear_at: usize,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    setting: u64,
    /// By then it is over, whatever became of it.
    forget: Moment,
}

/// So many server processes a side of a client may have to do with at a time.
const SERVERS: usize = 4;
/// There is nothing to clear away below this.
const FEW: usize = 1024;

impl ClockWatch {
    /// Takes note of the time of a server process, in answer to a request that was sent at that moment. Where there is
    /// but one, its id may be anything.
    pub fn observe(&self, process: &str, server_micros: u64, sent: Moment) {
        let received = Clock::Boot.now();
        let mut state = self.state();
        if state.clock(process).observe(server_micros, sent, received) {
            state.settings += 1;
            drop(state);
            tracing::warn!("the clock of the server was set, or ours stood still: every lock held there is lost");
        }
    }

    /// Takes note of what a claim was answered.
    pub fn claimed(&self, claim: &Claim, standing: Standing) {
        let mut state = self.state();
        let setting = state.settings;
        let forget = Clock::Boot.now() + claim.ttl * 2;
        match standing {
            Standing::Refused | Standing::Displaced => drop(state.claims.remove(&claim.id)),
            // Its lease was made anew, by the clock as it is now.
            Standing::Queued { .. } => state.keep(claim.id, Lease { setting, forget }),
            // What was granted before the clock was set may have been somebody else's in between.
            Standing::Granted { .. } => {
                let setting = state.claims.get(&claim.id).map_or(setting, |lease| lease.setting);
                state.keep(claim.id, Lease { setting, forget });
            }
        }
    }

    /// What a renewal is worth: nothing for a lease that was made before the server's clock was set.
    #[must_use]
    pub fn renewed(&self, claim: &Claim, renewal: Renewal) -> Renewal {
        let mut state = self.state();
        let settings = state.settings;
        let forget = Clock::Boot.now() + claim.ttl * 2;
        let Some(lease) = state.claims.get_mut(&claim.id) else { return renewal };
        if renewal == Renewal::Gone || lease.setting != settings {
            state.claims.remove(&claim.id);
            return Renewal::Gone;
        }
        lease.forget = forget;
        renewal
    }

    /// The claim is of no concern any more.
    pub fn withdrawn(&self, id: &ClaimId) {
        self.state().claims.remove(id);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn clock(&mut self, process: &str) -> &mut Drift {
        let known = self.clocks.iter().position(|(id, _)| id == process);
        let at = known.unwrap_or_else(|| {
            if self.clocks.len() >= 2 * SERVERS {
                self.clocks.clear();
            }
            self.clocks.push((process.to_owned(), Drift::default()));
            self.clocks.len() - 1
        });
        &mut self.clocks[at].1
    }

    fn keep(&mut self, id: ClaimId, lease: Lease) {
        self.claims.insert(id, lease);
        if self.claims.len() > self.clear_at.max(FEW) {
            let now = Clock::Boot.now();
            self.claims.retain(|_, lease| lease.forget > now);
            self.clear_at = self.claims.len() * 2;
        }
    }
}
