//! The claims of this client that wait to be told of their turn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockhouse_core::{Claim, ClaimId, Name, Standing};
use tokio::sync::{Notify, oneshot};

/// What a waiter is told: its new standing or, with `None`, that it should ask.
pub(crate) type Word = Option<Standing>;

/// Who waits here, by name.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    lines: Mutex<HashMap<Name, HashMap<ClaimId, Waiting>>>,
    /// Tells one registration of a claim from the next.
    serial: AtomicU64,
    /// Set while the watch has nothing to look after.
    idle: AtomicBool,
    /// Ends that.
    arrival: Notify,
}

#[derive(Debug)]
struct Waiting {
    serial: u64,
    tell: oneshot::Sender<Word>,
}

/// A place among the waiters, given up when dropped.
#[derive(Debug)]
pub(crate) struct Registration<'a> {
    waiters: &'a Waiters,
    name: Name,
    id: ClaimId,
    serial: u64,
    told: oneshot::Receiver<Word>,
}

impl Waiters {
    /// Registers a claim. Whoever registers must look at the database afterwards: what happened before is not told.
    pub(crate) fn register(&self, claim: &Claim) -> Registration<'_> {
        let (tell, told) = oneshot::channel();
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        self.lines().entry(claim.name.clone()).or_default().insert(claim.id, Waiting { serial, tell });
        // The watch sets the flag and then looks at the lines; here it is the other way round. One of both sees the
        // other.
        if self.idle.swap(false, Ordering::SeqCst) {
            self.arrival.notify_one();
        }
        Registration { waiters: self, name: claim.name.clone(), id: claim.id, serial, told }
    }

    /// Tells a waiter, if it is here.
    pub(crate) fn tell(&self, name: &Name, id: &ClaimId, word: Word) {
        if let Some(waiting) = self.take(name, id, |_| true) {
            // It may have gone away in the meantime.
            let _ = waiting.tell.send(word);
        }
    }

    /// The names that somebody waits for.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.lines().keys().cloned().collect()
    }

    /// The claims that wait for a name.
    pub(crate) fn of(&self, name: &Name) -> Vec<ClaimId> {
        self.lines().get(name).map(|line| line.keys().copied().collect()).unwrap_or_default()
    }

    /// Resolves when somebody waits.
    pub(crate) async fn some(&self) {
        loop {
            self.idle.store(true, Ordering::SeqCst);
            if !self.lines().is_empty() {
                self.idle.store(false, Ordering::SeqCst);
                return;
            }
            self.arrival.notified().await;
        }
    }

    fn take(&self, name: &Name, id: &ClaimId, is: impl FnOnce(&Waiting) -> bool) -> Option<Waiting> {
        let mut lines = self.lines();
        let line = lines.get_mut(name)?;
        let taken = line.get(id).is_some_and(is).then(|| line.remove(id)).flatten();
        if line.is_empty() {
            lines.remove(name);
        }
        taken
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Name, HashMap<ClaimId, Waiting>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration<'_> {
    /// Resolves when the claim is told something.
    pub(crate) async fn told(&mut self) -> Word {
        // The other end is dropped when the same claim is registered again: then both should ask.
        (&mut self.told).await.unwrap_or(None)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let serial = self.serial;
        self.waiters.take(&self.name, &self.id, |waiting| waiting.serial == serial);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockhouse_core::Owner;

    use super::*;

    fn claim() -> Claim {
        Claim::on(Name::new("a").unwrap(), Owner::new("x"), Duration::from_secs(1))
    }

    #[tokio::test]
    async fn only_the_one_meant_is_told_and_nothing_stays_behind() {
        let waiters = Waiters::default();
        let (first, second) = (claim(), claim());
        let mut one = waiters.register(&first);
        let two = waiters.register(&second);
        waiters.tell(&first.name, &first.id, Some(Standing::Granted { token: 7 }));
        assert_eq!(one.told().await, Some(Standing::Granted { token: 7 }));
        assert_eq!(waiters.of(&first.name), [second.id]);
        drop((one, two));
        assert!(waiters.names().is_empty());
    }

    #[tokio::test]
    async fn registering_again_wakes_the_first_and_keeps_the_second() {
        let waiters = Waiters::default();
        let claim = claim();
        let mut one = waiters.register(&claim);
        let mut two = waiters.register(&claim);
        assert_eq!(one.told().await, None);
        drop(one);
        waiters.tell(&claim.name, &claim.id, None);
        assert_eq!(two.told().await, None);
    }
}
