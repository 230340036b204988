//! What both sides of a client know together: its claims, and how long each is honoured while its client lives.
//!
//! Consul knows sessions and no leases: a key stays as long as its session. So a client keeps the leases of its own
//! claims, by its boot clock: a claim that nobody renewed in time is taken out although the session goes on. When the
//! client itself is gone, the session's end does the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId, Clock, Moment, Name};
use tokio::sync::watch;

use crate::api::Seen;
use crate::stored::Stored;

/// Past its lease by this much, a claim that nobody renews is taken out by its own client.
const OVERDUE: Duration = Duration::from_millis(500);
/// A request that got no answer may still be carried out within this time: servers hold it while they have no leader,
/// and agents try again.
const STRAYING: Duration = Duration::from_secs(30);

/// What both sides of a client know together. Nobody waits while it is locked.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    claims: HashMap<ClaimId, Entry>,
    /// How many of the claims are on a name.
    names: HashMap<Name, usize>,
    strays: Vec<Stray>,
    /// Keys that others' claims have left behind, as they were last written.
    left_behind: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Entry {
    spot: Spot,
    /// Dropped when the claim is out, and told when it weighs less: others of this client may wait for that.
    leaving: watch::Sender<()>,
}

/// A claim that may be in Consul.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    pub(crate) name: Name,
    /// The session it is bound to.
    pub(crate) session: Arc<str>,
    /// What it is called in its line.
    pub(crate) segment: String,
    /// Its own key, or the lock's if it stands there, as it was last seen; `None` as long as no answer said that it is
    /// there.
    pub(crate) placed: Option<Placed>,
    /// When it acquired the lock's own key, if it did.
    pub(crate) held: Option<u64>,
    /// Whose leaving it waits for.
    pub(crate) behind: Option<Behind>,
    /// How many are ahead.
    pub(crate) ahead: u32,
    /// So many requests to make it, or to let it in, got no answer: they may still be carried out.
    pub(crate) unanswered: u32,
    /// The lock's own key, acquired at this index, is being given back: others come first. It is nobody's hold.
    pub(crate) returning: Option<u64>,
    /// It is being withdrawn: nothing more is sent that makes it or lets it in.
    parting: bool,
    /// Out of the line if it is not heard of by then.
    due: Moment,
}

/// Where a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) written: u64,
    pub(crate) weight: u32,
    /// In the lock's own key.
    pub(crate) sole: bool,
}

/// Whose leaving a claim waits for.
#[derive(Debug, Clone)]
pub(crate) enum Behind {
    /// Another claim of this client, which stands in the way by itself.
    Here {
        leaving: watch::Receiver<()>,
        /// Nobody else stands between both.
        next: bool,
    },
    /// Some that stand in the way together: it waits for any of them.
    Together {
        /// The keys of others, as they were last written.
        keys: Vec<Seen>,
        /// Other claims of this client.
        here: Vec<watch::Receiver<()>>,
    },
    /// Nobody any more: one it waited for has left or changed.
    Gone,
    /// The end of the pause that another program's session asked for.
    Pause,
}

/// A claim that nobody wants, and that may still appear.
#[derive(Debug, Clone)]
pub(crate) struct Stray {
    pub(crate) name: Name,
    pub(crate) segment: String,
    until: Moment,
}

impl Kept {
    /// Notes before anything is sent that a claim may be in Consul.
    pub(crate) fn enter(&self, claim: &Claim, session: &Arc<str>, segment: String) {
        let mut inner = self.inner();
        inner.remove(&claim.id);
        let spot = Spot {
            name: claim.name.clone(),
            session: Arc::clone(session),
            segment,
            placed: None,
            held: None,
            behind: None,
            ahead: 0,
            unanswered: 0,
            returning: None,
            parting: false,
            due: Clock::Boot.now() + claim.ttl + OVERDUE,
        };
        inner.claims.insert(claim.id, Entry { spot, leaving: watch::Sender::new(()) });
        *inner.names.entry(claim.name.clone()).or_default() += 1;
    }

    /// A request is about to be sent that makes the claim or lets it in. `false` when it is withdrawn meanwhile.
    pub(crate) fn sending(&self, id: &ClaimId) -> bool {
        let mut inner = self.inner();
        let spot = inner.claims.get_mut(id).map(|entry| &mut entry.spot).filter(|spot| !spot.parting);
        spot.map(|spot| spot.unanswered += 1).is_some()
    }

    /// It was answered and what it did is noted, or it was certainly not carried out.
    pub(crate) fn answered(&self, id: &ClaimId) {
        self.change(id, |spot| spot.unanswered = spot.unanswered.saturating_sub(1));
    }

    /// The claim is about to be withdrawn. What was sent for it by now is counted, and nothing more will be.
    pub(crate) fn parting(&self, id: &ClaimId) -> Option<Spot> {
        let mut inner = self.inner();
        let spot = &mut inner.claims.get_mut(id)?.spot;
        spot.parting = true;
        Some(spot.clone())
    }

    /// Whether the claim is being withdrawn.
    pub(crate) fn is_parting(&self, id: &ClaimId) -> bool {
        self.inner().claims.get(id).is_some_and(|entry| entry.spot.parting)
    }

    /// The claim was seen.
    pub(crate) fn placed(&self, claim: &Claim, own: &Stored) {
        self.stands(claim, Placed { written: own.written, weight: own.weight, sole: own.sole });
    }

    /// The claim has the lock, and stands in its own key since this index.
    pub(crate) fn holds_alone(&self, claim: &Claim, since: u64) {
        self.stands(claim, Placed { written: since, weight: claim.weight, sole: true });
        self.holds(&claim.id, Some(since));
    }

    fn stands(&self, claim: &Claim, placed: Placed) {
        self.change(&claim.id, |spot| {
            spot.placed = Some(placed);
            spot.due = Clock::Boot.now() + claim.ttl + OVERDUE;
        });
    }

    /// The claim is in, through the lock's own key if it has one.
    pub(crate) fn holds(&self, id: &ClaimId, held: Option<u64>) {
        self.change(id, |spot| (spot.held, spot.behind, spot.ahead) = (held, None, 0));
    }

    /// The claim waits.
    pub(crate) fn waits(&self, id: &ClaimId, behind: Behind, ahead: u32) {
        self.change(id, |spot| (spot.held, spot.behind, spot.ahead) = (None, Some(behind), ahead));
    }

    /// One whom the claim waited for has left or changed.
    pub(crate) fn let_past(&self, id: &ClaimId) {
        self.change(id, |spot| spot.behind = Some(Behind::Gone));
    }

    /// The lock's own key is being given back, or was.
    pub(crate) fn returns(&self, id: &ClaimId, index: Option<u64>) {
        self.change(id, |spot| spot.returning = index);
    }

    /// A claim was renewed.
    pub(crate) fn renewed(&self, claim: &Claim) {
        self.change(&claim.id, |spot| spot.due = Clock::Boot.now() + claim.ttl + OVERDUE);
    }

    /// A claim weighs less than before.
    pub(crate) fn lighter(&self, id: &ClaimId) {
        if let Some(entry) = self.inner().claims.get(id) {
            entry.leaving.send_replace(());
        }
    }

    /// What is known of a claim.
    pub(crate) fn spot(&self, id: &ClaimId) -> Option<Spot> {
        self.inner().claims.get(id).map(|entry| entry.spot.clone())
    }

    /// Tells when a claim of this client leaves the line of a name; `None` when it is none, or stood in the lock's own
    /// key only for the moment in which it found others in line: it is behind them now.
    pub(crate) fn leaving(&self, name: &Name, other: &Stored) -> Option<watch::Receiver<()>> {
        let inner = self.inner();
        if !inner.names.contains_key(name) {
            return None;
        }
        let is_it = |spot: &Spot| spot.segment == other.segment && spot.name == *name;
        let entry = inner.claims.values().find(|entry| is_it(&entry.spot))?;
        let stands_so = !other.sole || entry.spot.placed.is_some_and(|placed| placed.sole);
        stands_so.then(|| entry.leaving.subscribe())
    }

    /// Whether another claim of this client is on a name.
    pub(crate) fn has_others(&self, claim: &Claim) -> bool {
        let inner = self.inner();
        let own = usize::from(inner.claims.contains_key(&claim.id));
        inner.names.get(&claim.name).is_some_and(|all| *all > own)
    }

    /// A claim is out of its line.
    pub(crate) fn leave(&self, id: &ClaimId) {
        self.inner().remove(id);
    }

    /// A claim that was withdrawn is out of its line, unless it was sent once more meanwhile.
    pub(crate) fn parted(&self, id: &ClaimId) {
        let mut inner = self.inner();
        if inner.claims.get(id).is_some_and(|entry| entry.spot.parting) {
            inner.remove(id);
        }
    }

    /// A claim is not in its line any more, and may be again: behind those who waited for it.
    pub(crate) fn displaced(&self, id: &ClaimId) {
        if let Some(entry) = self.inner().claims.get_mut(id) {
            (entry.spot.placed, entry.spot.held, entry.spot.behind) = (None, None, None);
            entry.leaving.send_replace(());
        }
    }

    /// A claim is out of its line as far as can be seen, and a request of its own may still be on its way.
    pub(crate) fn stray(&self, id: &ClaimId) {
        let mut inner = self.inner();
        if let Some(Entry { spot, .. }) = inner.remove(id) {
            let until = Clock::Boot.now() + STRAYING;
            inner.strays.push(Stray { name: spot.name, segment: spot.segment, until });
        }
    }

    /// What may still appear without being wanted.
    pub(crate) fn strays(&self) -> Vec<Stray> {
        let now = Clock::Boot.now();
        let mut inner = self.inner();
        inner.strays.retain(|stray| stray.until > now);
        inner.strays.clone()
    }

    /// Notes what was met of claims whose sessions are over.
    pub(crate) fn met(&self, left_behind: &[Seen]) {
        if !left_behind.is_empty() {
            self.inner().left_behind.extend(left_behind.iter().cloned());
        }
    }

    /// What was met of claims whose sessions are over, once: what is not cleared away is met again.
    pub(crate) fn left_behind(&self) -> Vec<Seen> {
        std::mem::take(&mut self.inner().left_behind).into_iter().collect()
    }

    /// The claims that nobody renewed in time.
    pub(crate) fn overdue(&self) -> Vec<(ClaimId, Spot)> {
        let now = Clock::Boot.now();
        let inner = self.inner();
        let over = inner.claims.iter().filter(|(_, entry)| entry.spot.due <= now);
        over.map(|(id, entry)| (*id, entry.spot.clone())).collect()
    }

    /// Whether nobody renewed it in time, still.
    pub(crate) fn is_overdue(&self, id: &ClaimId) -> bool {
        self.inner().claims.get(id).is_some_and(|entry| entry.spot.due <= Clock::Boot.now())
    }

    /// Whether there are claims, and nobody renewed any of them in time.
    pub(crate) fn all_overdue(&self) -> bool {
        let (now, inner) = (Clock::Boot.now(), self.inner());
        !inner.claims.is_empty() && inner.claims.values().all(|entry| entry.spot.due <= now)
    }

    /// A session is over, and with it everything that was claimed in it.
    pub(crate) fn session_ended(&self, session: &str) {
        let mut inner = self.inner();
        let gone = inner.claims.iter().filter(|(_, entry)| &*entry.spot.session == session);
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            inner.remove(&id);
        }
        inner.strays.retain(|stray| !stray.segment.ends_with(session));
    }

    /// Nothing happens when there is no such claim.
    fn change(&self, id: &ClaimId, change: impl FnOnce(&mut Spot)) {
        if let Some(entry) = self.inner().claims.get_mut(id) {
            change(&mut entry.spot);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remove(&mut self, id: &ClaimId) -> Option<Entry> {
        let entry = self.claims.remove(id)?;
        if let Some(count) = self.names.get_mut(&entry.spot.name) {
            *count -= 1;
            if *count == 0 {
                self.names.remove(&entry.spot.name);
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Owner;

    use super::*;

    #[test]
    fn a_claim_that_is_sent_while_it_is_withdrawn_is_not_lost_sight_of() {
        let (kept, session) = (Kept::default(), Arc::from("a session"));
        let claim = Claim::on(Name::new("a").unwrap(), Owner::new("me"), Duration::from_secs(60));
        kept.enter(&claim, &session, "once".into());
        assert_eq!(kept.parting(&claim.id).map(|spot| spot.unanswered), Some(0));
        // A request that everybody has given up arrives while the withdrawal looks for what it could have made.
        kept.enter(&claim, &session, "once".into());
        assert!(kept.sending(&claim.id));
        kept.parted(&claim.id);
        assert_eq!(kept.parting(&claim.id).map(|spot| spot.unanswered), Some(1), "the next withdrawal looks for it");
        assert!(!kept.sending(&claim.id), "it is withdrawn");
        kept.parted(&claim.id);
        assert!(kept.spot(&claim.id).is_none());
    }

    #[test]
    fn who_stood_in_the_locks_own_key_for_a_moment_is_not_waited_for() {
        let (kept, session) = (Kept::default(), Arc::from("a session"));
        let claim = Claim::on(Name::new("a").unwrap(), Owner::new("me"), Duration::from_secs(60));
        kept.enter(&claim, &session, "once".into());
        let seen = Stored {
            key: "a/.lock".into(),
            sole: true,
            segment: "once".into(),
            id: claim.id.public(),
            weight: 1,
            capacity: 1,
            evicted: crate::stored::Evicted::No,
            owner: "me".into(),
            note: None,
            made: 7,
            written: 7,
        };
        assert!(kept.leaving(&claim.name, &seen).is_none(), "it found others in line, and gives the lock back");
        kept.holds_alone(&claim, 7);
        let mut leaving = kept.leaving(&claim.name, &seen).expect("it holds the lock");
        assert!(!leaving.has_changed().unwrap());
        kept.displaced(&claim.id);
        assert!(leaving.has_changed().unwrap(), "whoever waits for it looks again");
        leaving.mark_unchanged();
    }
}
