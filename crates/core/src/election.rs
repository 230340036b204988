//! Leader election: who holds the mutex leads.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::error::Result;
use crate::guard::{Guard, Release};
use crate::name::Name;
use crate::options::option_methods;
use crate::request::Request;

/// How often an observer looks. Engines keep lines, not subscriptions to them, and people do not notice less.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// An election of some name. Candidates lead in the order in which they came.
///
/// ```
/// # use lockhouse_core::{Locks, Memory};
/// # async fn example() -> Result<(), lockhouse_core::Error> {
/// # let locks = Locks::new(Memory::new()).await?;
/// let election = locks.election("scheduler").note("10.0.0.7:8080");
/// let leadership = election.campaign().await?;
/// let leader = election.leader().await?.expect("we lead");
/// assert_eq!(leader.note.as_deref(), Some("10.0.0.7:8080"));
/// assert_eq!(leader.token, leadership.token());
/// leadership.resign().await?;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Election {
    pub(crate) request: Request,
}

/// Who leads, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Who it is.
    pub owner: String,
    /// The fencing token of the term.
    pub token: u64,
    /// What the leader says of itself, such as its address.
    pub note: Option<String>,
}

impl Election {
    option_methods!(request.options);

    /// Waits until we lead.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancellation safety
    /// A dropped future withdraws the candidature.
    pub async fn campaign(&self) -> Result<Leadership> {
        self.request.lock().await.map(Leadership)
    }

    /// Who leads now, for people and for routing; a leader itself asks its [`Leadership`].
    ///
    /// # Errors
    /// What the engine says.
    ///
    /// # Cancellation safety
    /// Dropping the future has no effect.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        leader(&self.request.client, &self.request.name.get()?).await
    }

    /// Watches who leads.
    #[must_use]
    pub fn observe(&self) -> Observer {
        Observer { election: self.clone(), seen: None }
    }
}

async fn leader(client: &Arc<Client>, name: &Name) -> Result<Option<Leader>> {
    let lines = client.call("observe", Some(name), client.front.survey(name.as_str())).await?;
    let line = lines.into_iter().find(|line| line.name == *name);
    Ok(line.and_then(|line| {
        let place = line.places.into_iter().next()?;
        Some(Leader { owner: place.owner, token: place.token?, note: place.note })
    }))
}

/// A term as leader: a [`Guard`]. It ends by [`resign`](Self::resign), by being dropped, or by a loss.
#[derive(Debug)]
#[must_use = "the leadership ends when this is dropped"]
pub struct Leadership(Guard);

impl Leadership {
    /// Steps down and waits until the engine has confirmed it.
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancellation safety
    /// As [`Guard::release`].
    pub async fn resign(self) -> Result<Release> {
        self.0.release().await
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// Watches who leads.
#[derive(Debug)]
pub struct Observer {
    election: Election,
    /// What was told last; `None` before the first.
    seen: Option<Option<Leader>>,
}

impl Observer {
    /// The present leader at first, then each time another one leads or nobody does.
    ///
    /// # Errors
    /// What the engine says; the observer can be asked again.
    ///
    /// # Cancellation safety
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        loop {
            let now = self.election.leader().await?;
            if self.seen.as_ref() != Some(&now) {
                self.seen = Some(now.clone());
                return Ok(now);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
