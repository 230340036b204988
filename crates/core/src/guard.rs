//! What the user holds while the lock is theirs.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::claim::PublicId;
use crate::client::Client;
use crate::clock::Moment;
use crate::engine::{Renewal, Withdrawal};
use crate::error::{Error, Kind, Result};
use crate::hold::{Grant, Hold, Loss};
use crate::keeper;
use crate::name::Name;
use crate::options::Options;
use crate::owner::Owner;
use crate::wait::LONGEST_REQUEST;

/// A lock that is held. Dropping it releases the lock in the background; [`release`](Self::release) confirms it.
///
/// It is renewed for as long as it lives. When it can no longer be renewed it is **lost**: [`lost`](Self::lost)
/// resolves, [`check`](Self::check) fails and [`protect`](Self::protect) drops what it protects, all before the engine
/// may let anybody else in.
///
/// ```
/// # use lockhouse_core::{Locks, Memory};
/// # async fn example() -> Result<(), lockhouse_core::Error> {
/// let locks = Locks::new(Memory::new()).await?;
/// let guard = locks.mutex("orders/42").lock().await?;
/// println!("token {}", guard.token());
/// guard.protect(async { /* work that must stop when the lock is lost */ }).await?;
/// guard.release().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct Guard {
    held: Arc<Held>,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Release {
    /// The engine confirmed it: the lock is free, or will be when [`at_least`](crate::Mutex::at_least) has passed.
    Freed,
    /// Other guards of the same owner still hold it.
    Shared,
    /// It was not held any more: lost before, and perhaps somebody else's by now. Nothing of theirs was touched.
    NotHeld,
}

/// A hold and what it takes to end it. Guards of the same owner share one; the last of them releases it.
pub(crate) struct Held {
    pub(crate) client: Arc<Client>,
    /// Taken when the release has begun.
    hold: Option<Arc<Hold>>,
    grant: Grant,
    at_least: Option<Duration>,
    /// How much of the capacity is held: a downgrade makes it less.
    weight: AtomicU32,
    /// Set where guards of the same owner may share this.
    shared_by: Option<(Owner, Name)>,
}

impl Held {
    pub(crate) fn new(client: &Arc<Client>, hold: Arc<Hold>, options: &Options) -> Self {
        let grant = hold.granted().expect("only a granted claim is held");
        let shared_by = options.owner.clone().map(|owner| (owner, hold.claim.name.clone()));
        let weight = AtomicU32::new(hold.claim.weight);
        Self { client: Arc::clone(client), hold: Some(hold), grant, at_least: options.at_least, weight, shared_by }
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Acquire)
    }

    pub(crate) fn weighs(&self, weight: u32) {
        self.weight.store(weight, Ordering::Release);
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.hold.as_ref().expect("a hold is taken only when its last guard goes")
    }

    /// `at_least`: the moment until which the name is to stay taken.
    fn linger_until(&self) -> Option<Moment> {
        let until = self.grant.at + self.at_least?;
        (until > self.client.clock.now()).then_some(until)
    }

    async fn release(mut self) -> Result<Release> {
        let hold = self.hold.take().expect("a hold is released once");
        let client = Arc::clone(&self.client);
        // Renewal ends here; from here on a dropped future hands the claim to the keeper.
        client.ledger.leave(&hold);
        let linger_until = self.linger_until();
        let mut parting = Parting { client: &client, hold: Some(Arc::clone(&hold)), linger_until };
        let limit = hold.claim.ttl.min(LONGEST_REQUEST);
        let answer = tokio::time::timeout(limit, async {
            match linger_until {
                Some(until) => {
                    let left = until.since(client.clock.now());
                    Ok(match keeper::linger(&*client.front, &hold.claim, left).await? {
                        Renewal::Renewed => Release::Freed,
                        _ => Release::NotHeld,
                    })
                }
                None => Ok(match client.front.withdraw(&hold.claim).await? {
                    Withdrawal::Withdrawn => Release::Freed,
                    Withdrawal::NotThere => Release::NotHeld,
                }),
            }
        });
        let answer = answer.await.unwrap_or_else(|_| {
            let what = format!("no answer within {limit:?}");
            Err(Error::new(Kind::TimedOut, what).unknown())
        });
        match answer {
            Ok(release) => {
                parting.hold = None;
                Ok(release)
            }
            Err(error) => Err(error
                .unknown()
                .help("the lock is free when its lease is over, or earlier: the keeper goes on trying")
                .engine(client.guarantees.engine)
                .during("release", Some(&hold.claim.name))),
        }
    }
}

/// A release on its way. Dropped before it was confirmed, it is the keeper's.
struct Parting<'a> {
    client: &'a Client,
    hold: Option<Arc<Hold>>,
    linger_until: Option<Moment>,
}

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            self.client.ledger.part(hold, self.linger_until);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.client.meters.held(self.client.clock.now().since(self.grant.at));
        let linger_until = self.linger_until();
        if let Some(hold) = self.hold.take() {
            self.client.ledger.part(hold, linger_until);
        }
        if let Some(key) = &self.shared_by {
            self.client.reentry.forget(key);
        }
    }
}

impl Guard {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self { held }
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Whether other guards of the same owner share the hold.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.held) > 1
    }

    /// The fencing number of this grant: it grows with every grant of the name. Give it to what the lock protects, and
    /// let that refuse a number older than the newest it has seen.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.held.grant.token
    }

    /// What people call this claim: what a survey shows and [`evict`](crate::Locks::evict) takes. It gives no right.
    #[must_use]
    pub fn id(&self) -> PublicId {
        self.held.hold().claim.id.public()
    }

    /// What is locked.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.held.hold().claim.name
    }

    /// How long the lock is held for certain if no renewal succeeds from now on; zero when it is lost.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        let hold = self.held.hold();
        if hold.lost().is_some() { Duration::ZERO } else { hold.valid_until().since(self.held.client.clock.now()) }
    }

    /// Fails when the lock is lost. It asks the clock, not the engine, and costs next to nothing.
    ///
    /// # Errors
    /// [`Kind::Lost`], with the reason.
    pub fn check(&self) -> Result<()> {
        match self.held.hold().lost() {
            None => Ok(()),
            Some(loss) => Err(self.lost_error(loss)),
        }
    }

    /// Resolves when the lock is lost, before the engine may let anybody else in.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) -> Loss {
        self.held.hold().until_lost().await
    }

    /// Runs a future under the lock: when the lock is lost first, the future is dropped.
    ///
    /// # Errors
    /// [`Kind::Lost`] when the lock is lost before the future is ready.
    ///
    /// # Cancellation safety
    /// Dropping the future drops the one it runs.
    pub async fn protect<F: Future>(&self, work: F) -> Result<F::Output> {
        self.check()?;
        tokio::select! {
            biased;
            loss = self.lost() => Err(self.lost_error(loss)),
            output = work => Ok(output),
        }
    }

    /// Releases the lock and waits until the engine has confirmed it.
    ///
    /// # Errors
    /// When the engine did not confirm it: the keeper goes on trying, and the lease ends in any case.
    ///
    /// # Cancellation safety
    /// Renewal ends at once. Dropping the future leaves the rest to the keeper.
    pub async fn release(self) -> Result<Release> {
        match Arc::into_inner(self.held) {
            Some(held) => held.release().await,
            None => Ok(Release::Shared),
        }
    }

    fn lost_error(&self, loss: Loss) -> Error {
        Error::new(Kind::Lost, format!("the lock was lost: {loss}"))
            .help("stop the work it protected; lock again to go on")
            .engine(self.held.client.guarantees.engine)
            .during("check", Some(self.name()))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hold.fmt(f)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.hold().fmt(f)
    }
}
