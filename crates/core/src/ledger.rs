//! The claims of a client: written by the caller's side, kept by the keeper.
//!
//! One map and one timeline under one short-held mutex. Each claim has one entry on the timeline, at its next event:
//! its renewal or its end. Claims made at nearly the same time share a slot, so that 100 000 held locks are a few
//! batches and one timer. The keeper is woken only when something comes earlier than what it sleeps for: an uncontended
//! lock and its release never cross to another thread.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::ClaimId;
use crate::clock::{Clock, Moment};
use crate::engine::Renewal;
use crate::hold::{Hold, Loss};

#[derive(Debug)]
pub(crate) struct Ledger {
    clock: Clock,
    state: Mutex<State>,
    /// Wakes the keeper.
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<ClaimId, Entry>,
    timeline: BTreeSet<(Moment, ClaimId)>,
    partings: BTreeMap<(Moment, ClaimId), Parting>,
    /// What the keeper sleeps until.
    wakes_at: Option<Moment>,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    hold: Arc<Hold>,
    renew_at: Moment,
    /// Where the entry stands on the timeline; `None` when nothing will happen to it any more.
    due: Option<Moment>,
    renewing: bool,
}

/// A claim that nobody needs any more: the keeper takes it out of the engine.
#[derive(Debug)]
pub(crate) struct Parting {
    pub(crate) hold: Arc<Hold>,
    /// `at_least`: the name is to stay taken until then.
    pub(crate) linger_until: Option<Moment>,
    /// When the lease must have passed, and there is nothing left to take out.
    pub(crate) give_up: Moment,
    pub(crate) attempts: u32,
}

/// One claim whose renewal is on its way.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) hold: Arc<Hold>,
    /// A claim that was not granted when the renewal was sent may be unknown to the engine because it was slower.
    was_granted: bool,
}

/// What the keeper has to do now.
#[derive(Debug, Default)]
pub(crate) struct Due {
    pub(crate) renewals: Vec<Sent>,
    pub(crate) partings: Vec<Parting>,
    pub(crate) lost: Vec<Arc<Hold>>,
    /// When to look again.
    pub(crate) next: Option<Moment>,
    /// Closed, and nothing is left to do.
    pub(crate) finished: bool,
}

/// A claim is renewed after this part of its lease: two renewals may fail before the third one is late.
const RENEW_AFTER: u32 = 3;
/// Renewals within this part of a lease go out together.
const SLOTS: u32 = 32;

impl Ledger {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default(), wake: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the mutex was held is a bug of ours; what it guards is still the best knowledge there is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim whose first byte is sent after `t0`.
    pub(crate) fn enter(&self, hold: &Arc<Hold>, t0: Moment) {
        let ttl = hold.claim.ttl;
        let entry = Entry { hold: Arc::clone(hold), renew_at: slot(t0, ttl), due: None, renewing: false };
        self.change(|state| {
            state.entries.insert(hold.claim.id, entry);
            state.schedule(&hold.claim.id, t0)
        });
    }

    /// The claim is to be looked at again: its end has moved, or it is to be renewed at once.
    pub(crate) fn reconsider(&self, hold: &Hold, renew_now: bool) {
        let now = self.clock.now();
        self.change(|state| {
            if let Some(entry) = state.entries.get_mut(&hold.claim.id).filter(|_| renew_now) {
                entry.renew_at = now;
            }
            state.schedule(&hold.claim.id, now)
        });
    }

    /// The claim is no longer the keeper's concern. Renewal ends here.
    pub(crate) fn leave(&self, hold: &Hold) {
        self.state().remove(&hold.claim.id);
    }

    /// The claim is to be taken out of the engine by the keeper.
    pub(crate) fn part(&self, hold: Arc<Hold>, linger_until: Option<Moment>) {
        let now = self.clock.now();
        let patience = hold.claim.ttl.max(linger_until.map_or(Duration::ZERO, |until| until.since(now)));
        let parting = Parting { hold, linger_until, give_up: now + patience, attempts: 0 };
        self.change(|state| {
            state.remove(&parting.hold.claim.id);
            state.partings.insert((now, parting.hold.claim.id), parting);
            now
        });
    }

    /// A parting that did not work out yet.
    pub(crate) fn part_again(&self, mut parting: Parting, after: Duration) {
        let at = self.clock.now() + after;
        parting.attempts += 1;
        self.state().partings.insert((at, parting.hold.claim.id), parting);
    }

    /// Ends everything: what is still held is lost, and taken out of the engine.
    pub(crate) fn close(&self) {
        let now = self.clock.now();
        self.change(|state| {
            state.closed = true;
            now
        });
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Nobody keeps the claims any more: every hold is lost, as is every one that comes later.
    pub(crate) fn abandon_all(&self) {
        let mut state = self.state();
        state.closed = true;
        for (_, entry) in state.entries.drain() {
            entry.hold.lose(Loss::Closed);
            entry.hold.lapsed.notify_one();
        }
    }

    /// What there is to do now. Whatever it returns is marked as under way.
    pub(crate) fn take_due(&self, now: Moment) -> Due {
        let mut state = self.state();
        let mut due = Due::default();
        if state.closed {
            state.close_all(now);
        }
        while let Some(&(at, id)) = state.timeline.first() {
            if at > now {
                break;
            }
            state.timeline.pop_first();
            state.happen(&id, now, &mut due);
        }
        while let Some(first) = state.partings.first_entry().filter(|first| first.key().0 <= now) {
            due.partings.push(first.remove());
        }
        let renewal = state.timeline.first().map(|(at, _)| *at);
        let parting = state.partings.first_key_value().map(|((at, _), _)| *at);
        due.finished = state.closed && state.timeline.is_empty() && state.partings.is_empty();
        // What it slept for stays, although it may be gone: a caller that locks and releases in a loop would
        // otherwise have to wake the keeper every time.
        let remembered = state.wakes_at.filter(|at| *at > now);
        due.next = [renewal, parting, remembered].into_iter().flatten().min();
        state.wakes_at = due.next;
        due
    }

    /// The answers to a batch of renewals whose first byte was sent after `t0`; `None` when no answer came.
    /// Returns the holds that are lost by it.
    pub(crate) fn renewed(&self, sent: Vec<Sent>, t0: Moment, answers: Option<Vec<Renewal>>) -> Vec<Arc<Hold>> {
        let now = self.clock.now();
        let mut lost = Vec::new();
        let mut state = self.state();
        let mut answers = answers.unwrap_or_default().into_iter();
        for Sent { hold, was_granted } in sent {
            let answer = answers.next().unwrap_or(Renewal::Unknown);
            let id = hold.claim.id;
            let Some(entry) = state.entries.get_mut(&id) else { continue };
            entry.renewing = false;
            match answer {
                Renewal::Renewed => {
                    hold.confirm(t0);
                    entry.renew_at = slot(t0, hold.claim.ttl).max(now);
                }
                Renewal::Gone if was_granted => {
                    hold.lose(Loss::Gone);
                    state.unschedule(&id);
                    lost.push(hold);
                    continue;
                }
                Renewal::Gone => {
                    hold.lapsed.notify_one();
                    entry.renew_at = now + hold.claim.ttl / RENEW_AFTER;
                }
                Renewal::Unknown => entry.renew_at = now + retry_after(hold.claim.ttl),
            }
            state.schedule(&id, now);
        }
        lost
    }

    fn change(&self, change: impl FnOnce(&mut State) -> Moment) {
        let mut state = self.state();
        let at = change(&mut state);
        let sleeps_past = state.wakes_at.is_none_or(|wakes_at| at < wakes_at);
        if sleeps_past {
            state.wakes_at = Some(at);
            drop(state);
            self.wake.notify_one();
        }
    }
}

impl State {
    /// Puts the claim's next event on the timeline, and says when it is.
    fn schedule(&mut self, id: &ClaimId, now: Moment) -> Moment {
        let Some(entry) = self.entries.get_mut(id) else { return Moment::NEVER };
        let hold = &entry.hold;
        let end = if hold.granted().is_some() { hold.valid_until() } else { Moment::NEVER };
        // While a renewal is on its way only the end matters, and a waiter has none: its answer schedules it again.
        let due = if entry.renewing { end } else { end.min(entry.renew_at) };
        let due = due.max(now);
        if let Some(before) = entry.due.replace(due) {
            self.timeline.remove(&(before, *id));
        }
        self.timeline.insert((due, *id));
        due
    }

    fn unschedule(&mut self, id: &ClaimId) {
        if let Some(before) = self.entries.get_mut(id).and_then(|entry| entry.due.take()) {
            self.timeline.remove(&(before, *id));
        }
    }

    fn remove(&mut self, id: &ClaimId) {
        self.unschedule(id);
        self.entries.remove(id);
    }

    /// The event of one claim: its end, or its renewal.
    fn happen(&mut self, id: &ClaimId, now: Moment, due: &mut Due) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.due = None;
        let was_granted = entry.hold.granted().is_some();
        if was_granted && now >= entry.hold.valid_until() {
            if entry.hold.lose_by_time() {
                due.lost.push(Arc::clone(&entry.hold));
            }
            return;
        }
        if !entry.renewing && now >= entry.renew_at {
            entry.renewing = true;
            due.renewals.push(Sent { hold: Arc::clone(&entry.hold), was_granted });
        }
        self.schedule(id, now);
    }

    fn close_all(&mut self, now: Moment) {
        self.timeline.clear();
        for (id, Entry { hold, .. }) in self.entries.drain() {
            hold.lose(Loss::Closed);
            hold.lapsed.notify_one();
            let give_up = now + hold.claim.ttl;
            self.partings.insert((now, id), Parting { hold, linger_until: None, give_up, attempts: 0 });
        }
    }
}

/// When a claim heard of at `t0` is renewed: after a third of its lease, rounded down to a slot.
fn slot(t0: Moment, ttl: Duration) -> Moment {
    let at = (t0 + ttl / RENEW_AFTER).as_nanos();
    let width = u64::try_from((ttl / SLOTS).as_nanos()).unwrap_or(u64::MAX).max(1);
    Moment::from_nanos(at - at % width)
}

/// How soon a renewal that was not answered is tried again.
fn retry_after(ttl: Duration) -> Duration {
    (ttl / 20).clamp(Duration::from_millis(5), Duration::from_secs(1))
}
