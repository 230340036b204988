//! The connections by which a client holds locks: one that many share, and a few of their own.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::types::Type;

use crate::dial::Dial;
use crate::error::Fault;
use crate::hold::Silence;
use crate::holding::Holding;
use crate::tables::sql;

/// So many connections that nobody needs at present are kept for the next one.
const SPARE: usize = 2;
/// How often it is looked whether the server is done with a connection that it was told to end, and for how long.
const LINGERS: Duration = Duration::from_millis(10);
const ENDS: Duration = Duration::from_secs(1);

/// The connections by which a client holds locks.
pub(crate) struct Links {
    dial: Dial,
    silence: Silence,
    /// Held by whoever connects; the others wait for the outcome.
    shared: tokio::sync::Mutex<Option<Arc<Holding>>>,
    own: Arc<Semaphore>,
    spare: Mutex<Vec<Arc<Holding>>>,
}

/// What a lock is held by. Dropped, a connection of its own is closed.
#[derive(Debug)]
pub(crate) struct Grip {
    pub(crate) link: Arc<Holding>,
    /// There is one for each connection that is not shared.
    own: Option<OwnedSemaphorePermit>,
}

impl Links {
    /// Connections to a server that ends them when they are silent for so long: one that is shared, and so many others.
    /// None is made yet.
    pub(crate) fn new(dial: Dial, silence: Silence, own: usize) -> Self {
        let own = Arc::new(Semaphore::new(own));
        Self { dial, silence, shared: tokio::sync::Mutex::default(), own, spare: Mutex::default() }
    }

    /// The one that many share. Nothing that waits may be asked on it.
    pub(crate) async fn shared(&self) -> Result<Grip, Fault> {
        let mut shared = self.shared.lock().await;
        let link = match shared.as_ref().filter(|link| !link.is_broken()) {
            Some(link) => Arc::clone(link),
            None => Arc::clone(shared.insert(Holding::connect(&self.dial, self.silence).await?)),
        };
        Ok(Grip { link, own: None })
    }

    /// One that nobody else uses; `None` when there may not be more.
    pub(crate) async fn own(&self) -> Result<Option<Grip>, Fault> {
        let Ok(permit) = Arc::clone(&self.own).try_acquire_owned() else { return Ok(None) };
        let spare = self.take_spare();
        let link = match spare {
            Some(link) => link,
            None => Holding::connect(&self.dial, self.silence).await?,
        };
        Ok(Some(Grip { link, own: Some(permit) }))
    }

    /// Whether there may be more of the second kind.
    pub(crate) fn has_room(&self) -> bool {
        self.own.available_permits() > 0
    }

    /// Takes back a connection by which nothing is held.
    pub(crate) fn give_back(&self, grip: Grip) {
        let Grip { link, own } = grip;
        let mut spare = self.spare();
        if own.is_some() && !link.is_broken() && spare.len() < SPARE {
            spare.push(link);
        }
    }

    /// A connection broke, for us. Ends it at the server as well, which may not know yet, and waits until it is gone:
    /// nobody gets what it held before.
    pub(crate) async fn end(&self, ghost: &Holding) -> Result<(), Fault> {
        let shared = self.shared().await?;
        let ended = async {
            while !shared.link.ask(sql!("ask/end_ghost"), &[(&ghost.label(), Type::TEXT)]).await?.is_empty() {
                tokio::time::sleep(LINGERS).await;
            }
            Ok(())
        };
        tokio::time::timeout(ENDS, ended).await.unwrap_or(Err(Fault::Silence(ENDS)))
    }

    fn take_spare(&self) -> Option<Arc<Holding>> {
        let mut spare = self.spare();
        spare.retain(|link| !link.is_broken());
        spare.pop()
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Arc<Holding>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration knows the password.
        f.debug_struct("Links").field("free", &self.own.available_permits()).finish_non_exhaustive()
    }
}
