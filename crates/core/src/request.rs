//! A lock that somebody wants: what every kind of lock comes down to.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::Instrument;

use crate::claim::Patience;
use crate::client::Client;
use crate::clock::Moment;
use crate::error::{Error, Kind, Result};
use crate::guard::{Guard, Held};
use crate::options::{Named, Options, Terms};
use crate::{reentry, wait};

/// A lock that somebody wants.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) client: Arc<Client>,
    pub(crate) name: Named,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) options: Options,
}

impl Request {
    pub(crate) fn new(client: &Arc<Client>, name: &str, weight: u32, capacity: u32) -> Self {
        Self { client: Arc::clone(client), name: Named::new(name), weight, capacity, options: Options::default() }
    }

    /// Waits for the lock; out of patience is an error.
    pub(crate) async fn lock(&self) -> Result<Guard> {
        let deadline = self.deadline(self.options.wait);
        self.lock_by(deadline).await?.ok_or_else(|| self.busy())
    }

    /// Waits for the lock; out of patience is `None`.
    pub(crate) async fn lock_by(&self, deadline: Moment) -> Result<Option<Guard>> {
        let terms = self.terms()?;
        self.measured(&terms, terms.patience(), deadline).await
    }

    /// Takes the lock if nobody is ahead.
    pub(crate) async fn try_lock(&self) -> Result<Option<Guard>> {
        self.measured(&self.terms()?, Patience::None, Moment::NEVER).await
    }

    pub(crate) fn deadline(&self, wait: Option<Duration>) -> Moment {
        wait.map_or(Moment::NEVER, |wait| self.client.clock.now() + wait)
    }

    pub(crate) fn busy(&self) -> Error {
        let waited = self.options.wait.unwrap_or_default();
        let error = Error::new(Kind::Busy, format!("somebody else held the lock for the {waited:?} that we waited"))
            .help("wait longer, or see who holds it with a survey")
            .engine(self.client.guarantees.engine);
        error.during("lock", self.name.get().ok().as_ref())
    }

    fn terms(&self) -> Result<Terms> {
        Terms::new(&self.client, &self.name, self.weight, self.capacity, &self.options)
    }

    async fn measured(&self, terms: &Terms, patience: Patience, deadline: Moment) -> Result<Option<Guard>> {
        let meters = &self.client.meters;
        let started = self.client.clock.now();
        let span = tracing::debug_span!("lock", name = %terms.name, engine = self.client.guarantees.engine);
        let answer = self.acquire(terms, patience, deadline).instrument(span).await;
        match &answer {
            Ok(Some(guard)) => {
                meters.acquired.increment(1);
                meters.wait.record(self.client.clock.now().since(started));
                tracing::debug!(name = %terms.name, token = guard.token(), "locked");
            }
            Ok(None) => meters.busy.increment(1),
            Err(_) => meters.errors.increment(1),
        }
        answer
    }

    async fn acquire(&self, terms: &Terms, patience: Patience, deadline: Moment) -> Result<Option<Guard>> {
        let Some(owner) = &terms.options.owner else {
            return Ok(self.claim(terms, patience, deadline).await?.map(Guard::new));
        };
        let key = (owner.clone(), terms.name.clone());
        let seat = self.client.reentry.seat(&key);
        let answer = async {
            // Another task of the same owner may be about to claim: then its hold is the one to share.
            let mut held = match patience {
                Patience::None => match seat.try_lock() {
                    Ok(held) => held,
                    Err(_) => return Ok(None),
                },
                _ => tokio::select! {
                    biased;
                    held = seat.lock() => held,
                    () = self.client.clock.sleep_until(deadline) => return Ok(None),
                },
            };
            if let Some(shared) = reentry::enter(&held, terms)? {
                return Ok(Some(Guard::new(shared)));
            }
            *held = Weak::new();
            let answer = self.claim(terms, patience, deadline).await?;
            if let Some(new) = &answer {
                *held = Arc::downgrade(new);
            }
            Ok(answer.map(Guard::new))
        }
        .await;
        drop(seat);
        if !matches!(answer, Ok(Some(_))) {
            self.client.reentry.forget(&key);
        }
        answer
    }

    async fn claim(&self, terms: &Terms, patience: Patience, deadline: Moment) -> Result<Option<Arc<Held>>> {
        let hold = wait::acquire(&self.client, terms, patience, deadline).await?;
        Ok(hold.map(|hold| Arc::new(Held::new(&self.client, hold, &terms.options))))
    }
}
