//! One claim as its client knows it: how long it is valid, whether it is granted, whether it is lost.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, SetOnce};

use crate::claim::Claim;
use crate::clock::{Clock, Moment};
use crate::engine::Withdrawal;

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
    /// The engine has answered one of them: the claim had its place before those that are on their way.
    placed: AtomicBool,
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
            placed: AtomicBool::new(false),
            lapsed: Notify::new(),
        };
        // Not confirmed yet, and true all the same: if the engine has the claim, it has it since after t0.
        hold.extend(t0);
        hold
    }

    /// The engine heard of the claim in answer to a request whose first byte was sent after `t0`.
    ///
    /// An answer that comes when the claim has lapsed comes too late: the engine may have dropped the claim, granted
    /// somebody else, and taken a late copy of our request for a new claim. It revives nothing; `tests/model.rs` shows
    /// what happens otherwise.
    pub(crate) fn confirm(&self, t0: Moment) {
        if !self.has_lapsed() {
            self.extend(t0);
        }
    }

    fn extend(&self, t0: Moment) {
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

    /// It was answered: carried out, or certainly not.
    pub(crate) fn answered(&self, carried_out: bool) {
        self.placed.fetch_or(carried_out, Ordering::AcqRel);
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether a withdrawal took the claim out for good, so that no request which is on its way puts it back.
    pub(crate) fn is_out(&self, withdrawal: Withdrawal) -> bool {
        match self.unanswered.load(Ordering::Acquire) {
            0 => true,
            // It has arrived: there was no other that could have made the claim which was withdrawn.
            1 => withdrawal == Withdrawal::Withdrawn && !self.placed.load(Ordering::Acquire),
            _ => false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, Owner};

    fn hold(t0: Moment) -> Hold {
        let claim = Claim::on(Name::new("a").unwrap(), Owner::new("x"), Duration::from_secs(1));
        Hold::new(claim, Clock::Simulated, t0)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_after_the_lapse_revives_nothing() {
        let hold = hold(Clock::Simulated.now());
        tokio::time::sleep(Duration::from_millis(600)).await;
        let sent = Clock::Simulated.now();
        tokio::time::sleep(Duration::from_millis(600)).await;
        hold.confirm(sent);
        assert!(hold.has_lapsed());
        assert!(!hold.grant(1, None));
    }

    #[tokio::test(start_paused = true)]
    async fn validity_counts_from_before_the_request() {
        let hold = hold(Clock::Simulated.now());
        tokio::time::sleep(Duration::from_millis(600)).await;
        let sent = Clock::Simulated.now();
        tokio::time::sleep(Duration::from_millis(300)).await;
        hold.confirm(sent);
        assert_eq!(hold.valid_until(), sent + Duration::from_secs(1) - margin(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn at_most_cannot_be_renewed_away() {
        let start = Clock::Simulated.now();
        let hold = hold(start);
        assert!(hold.grant(1, Some(Duration::from_millis(500))));
        hold.confirm(Clock::Simulated.now());
        assert_eq!(hold.valid_until(), start + Duration::from_millis(500));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(hold.lost(), Some(Loss::HeldTooLong));
    }
}
