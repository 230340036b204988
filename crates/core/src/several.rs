//! Several mutexes at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{join_all, select_all};

use crate::client::Client;
use crate::clock::Moment;
use crate::error::{Error, Kind, Result};
use crate::guard::{Guard, Release};
use crate::hold::Loss;
use crate::line::kind;
use crate::name::Name;
use crate::options::{Options, option_methods};
use crate::request::Request;

/// Several mutexes, taken in one canonical order within one time budget, all or none.
///
/// The order is that of their names, whatever order they are given in: two clients that want the same names the other
/// way round never wait for each other. A name given twice counts once.
///
/// ```
/// # use lockhouse_core::{Locks, Memory};
/// # async fn example() -> Result<(), lockhouse_core::Error> {
/// # let locks = Locks::new(Memory::new()).await?;
/// let transfer = locks.several(["accounts/7", "accounts/3"]).lock().await?;
/// transfer.check()?;
/// transfer.release().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Several {
    client: Arc<Client>,
    names: Vec<String>,
    options: Options,
}

impl Several {
    option_methods!(options);

    pub(crate) fn new<N: AsRef<str>>(client: &Arc<Client>, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        Self { client: Arc::clone(client), names, options: Options::default() }
    }

    /// Waits for all of them, for as long as [`wait`](Self::wait) permits in all.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock), for the first that cannot be had; those before it are given back.
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws them.
    pub async fn lock(&self) -> Result<SeveralGuard> {
        let deadline = self.options.wait.map_or(Moment::NEVER, |wait| self.client.clock.now() + wait);
        let mut guards = Vec::new();
        for request in self.requests()? {
            match request.lock_by(deadline).await {
                Ok(Some(guard)) => guards.push(guard),
                other => {
                    give_back(guards).await;
                    return Err(other.err().unwrap_or_else(|| request.busy()));
                }
            }
        }
        Ok(SeveralGuard { guards })
    }

    /// Takes all of them if all are free. Does not wait, and leaves nothing behind.
    ///
    /// # Errors
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancellation safety
    /// A dropped future leaves no claim behind: the keeper withdraws them.
    pub async fn try_lock(&self) -> Result<Option<SeveralGuard>> {
        let mut guards = Vec::new();
        for request in self.requests()? {
            match request.try_lock().await {
                Ok(Some(guard)) => guards.push(guard),
                other => {
                    give_back(guards).await;
                    return other.map(|_| None);
                }
            }
        }
        Ok(Some(SeveralGuard { guards }))
    }

    /// One request a name, in the canonical order. Bad names are told before anything is taken.
    fn requests(&self) -> Result<Vec<Request>> {
        let mut requests = BTreeMap::new();
        for name in &self.names {
            let mut request = Request::new(&self.client, name, kind::MUTEX, kind::MUTEX);
            request.options = self.options.clone();
            requests.insert(Name::new(name)?, request);
        }
        if requests.is_empty() {
            return Err(Error::new(Kind::Invalid, "no name is given").help("name at least one lock"));
        }
        Ok(requests.into_values().collect())
    }
}

/// Gives back what was taken before the one that failed, the last first. What cannot be confirmed is the keeper's.
async fn give_back(guards: Vec<Guard>) {
    for guard in guards.into_iter().rev() {
        if let Err(error) = guard.release().await {
            tracing::debug!(%error, "left to the keeper");
        }
    }
}

/// Several locks that are held together.
#[derive(Debug)]
#[must_use = "the locks are released when their guard is dropped"]
pub struct SeveralGuard {
    guards: Vec<Guard>,
}

impl SeveralGuard {
    /// The guards, in the order of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Fails when any of the locks is lost.
    ///
    /// # Errors
    /// [`Kind::Lost`], with the name and the reason.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// Resolves when any of the locks is lost, before the engine may let anybody else in.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) -> (&Name, Loss) {
        let (loss, at, _) = select_all(self.guards.iter().map(|guard| Box::pin(guard.lost()))).await;
        (self.guards[at].name(), loss)
    }

    /// Releases all of them and waits until the engine has confirmed it.
    ///
    /// # Errors
    /// The first of what the engine did not confirm: the keeper goes on trying.
    ///
    /// # Cancellation safety
    /// Renewal ends at once. Dropping the future leaves the rest to the keeper.
    pub async fn release(self) -> Result<Vec<Release>> {
        join_all(self.guards.into_iter().map(Guard::release)).await.into_iter().collect()
    }
}
