//! One claim as its client knows it: how long it is valid, whether it is granted, whether it is lost.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, SetOnce};

use crate::claim::Claim;
use crate::clock::{Clock, Moment};

/// Why a lock is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Its lease could not be renewed in time.
    Expired,
    /// The engine does not know the claim any more, or an operator ended it.
    Gone,
    /// It was held for as long as [`at_most`](crate::Mutex::at_most) permits.
    HeldTooLong,
    /// The client was closed.
    Closed,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease could not be renewed in time",
            Self::Gone => "the engine does not know it any more: it was evicted or its data was removed",
            Self::HeldTooLong => "it was held for as long as `at_most` permits",
            Self::Closed => "its client was closed",
        })
    }
}

/// A grant: its token, and when we learned of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) token: u64,
    pub(crate) at: Moment,
}

/// One claim as its client knows it. Shared by the caller's side, which asks for it, and the keeper, which renews it.
pub(crate) struct Hold {
    pub(crate) claim: Claim,
    clock: Clock,
    /// In nanoseconds of the boot clock: the claim, if the engine has it, is honoured until then for certain.
    valid_until: AtomicU64,
    /// `at_most`: no renewal extends the validity past this.
    ends: AtomicU64,
    grant: OnceLock<Grant>,
    loss: SetOnce<Loss>,
    /// Requests to claim that were sent and not answered: each may still be on its way.
    unanswered: AtomicU32,
    /// Told when the engine does not know a waiting claim any more.
    pub(crate) lapsed: Notify,
}

/// What is taken off a lease for the difference in speed of two clocks, and for our own slowness in noticing.
pub(crate) fn margin(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

impl Hold {
    /// A claim whose first byte is sent after `t0`.
    pub(crate) fn new(claim: Claim, clock: Clock, t0: Moment) -> Self {
        let hold = Self {
            claim,
            clock,
            valid_until: AtomicU64::new(0),
            ends: AtomicU64::new(u64::MAX),
            grant: OnceLock::new(),
            loss: SetOnce::new(),
            unanswered: AtomicU32::new(0),
            lapsed: Notify::new(),
        };
        // Not confirmed yet, and true all the same: if the engine has the claim, it has it since after t0.
        hold.confirm(t0);
        hold
    }

    /// The engine heard of the claim in answer to a request whose first byte was sent after `t0`.
    pub(crate) fn confirm(&self, t0: Moment) {
        let until = t0 + self.claim.ttl - margin(self.claim.ttl);
        let until = until.as_nanos().min(self.ends.load(Ordering::Acquire));
        self.valid_until.fetch_max(until, Ordering::AcqRel);
    }

    pub(crate) fn valid_until(&self) -> Moment {
        Moment::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    /// Whether the time up to which the engine honours the claim for certain has passed.
    pub(crate) fn has_lapsed(&self) -> bool {
        self.clock.now() >= self.valid_until()
    }

    /// Notes the grant. `false` when it came too late to be one.
    pub(crate) fn grant(&self, token: u64, at_most: Option<Duration>) -> bool {
        let at = self.clock.now();
        if let Some(at_most) = at_most {
            let ends = (at + at_most).as_nanos();
            self.ends.store(ends, Ordering::Release);
            self.valid_until.fetch_min(ends, Ordering::AcqRel);
        }
        at < self.valid_until() && self.grant.set(Grant { token, at }).is_ok()
    }

    pub(crate) fn granted(&self) -> Option<Grant> {
        self.grant.get().copied()
    }

    /// Tells of a loss, once. `false` when it was told before.
    pub(crate) fn lose(&self, loss: Loss) -> bool {
        self.loss.set(loss).is_ok()
    }

    /// The loss of a hold whose time is up.
    pub(crate) fn lose_by_time(&self) -> bool {
        let too_long = self.clock.now().as_nanos() >= self.ends.load(Ordering::Acquire);
        self.lose(if too_long { Loss::HeldTooLong } else { Loss::Expired })
    }

    /// The loss, if there is one by now.
    pub(crate) fn lost(&self) -> Option<Loss> {
        // The clock decides, not the keeper: after a pause of the process the first look must find out.
        if self.loss.get().is_none() && self.has_lapsed() {
            self.lose_by_time();
        }
        self.loss.get().copied()
    }

    /// Resolves when the hold is lost.
    pub(crate) async fn until_lost(&self) -> Loss {
        *self.loss.wait().await
    }

    /// A request to claim is about to be sent.
    pub(crate) fn sending(&self) {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
    }

    /// It was answered, or certainly not carried out.
    pub(crate) fn answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }

    /// How many requests to claim may still be on their way.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", &self.claim.name)
            .field("id", &self.claim.id)
            .field("token", &self.granted().map(|grant| grant.token))
            .field("valid_until", &self.valid_until())
            .field("loss", &self.loss.get())
            .finish_non_exhaustive()
    }
}
