//! The session: one for each client, on a thread of its own, used by both sides.
//!
//! The thread keeps the session alive whatever the caller's runtime does, begins a new one when it has ended, takes out
//! the claims whose leases are over, and ends the session when the client is done.
//!
//! A session is a third longer than the longest lease, and is renewed often: a claim or a renewal then finds
//! that it lives long enough, and needs no request of its own for that. Consul ends no session before its TTL is over,
//! and ends it when twice that time is over; a server that becomes the leader gives all of them that time anew.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use lockhouse_core::{Clock, Moment};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use crate::api::{NewSession, json, session_id};
use crate::behavior::Behavior;
use crate::error::Fault;
use crate::kept::Kept;
use crate::link::{Link, Repeat};
use crate::node::node;
use crate::reaper::{clear, reap};
use crate::store::Store;

/// The longest that beginning a session may take, the first time: the servers may be about to elect a leader.
const BEGINNING: Duration = Duration::from_secs(6);
/// The longest that one request may take.
const LONGEST: Duration = Duration::from_secs(3);
/// The pause before something is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// The longest that a client which is done waits for the end of its session.
const ENDING: Duration = Duration::from_secs(1);

/// What a session is to be.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
    /// What becomes of its keys when it ends.
    pub(crate) behavior: Behavior,
    /// The node of the catalog that it belongs to; the agent's own where none is given.
    pub(crate) node: Option<String>,
}

impl Terms {
    /// The longest lease within such a session.
    pub(crate) fn longest_lease(&self) -> Duration {
        self.ttl * 3 / 4
    }

    /// How often it is renewed.
    fn tick(&self) -> Duration {
        self.ttl / 8
    }

    /// How long one request may take, so that there is time for another.
    fn limit(&self) -> Duration {
        (self.ttl / 4).min(LONGEST)
    }
}

/// The sessions of one client, one after the other.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Hears of the thread's end.
    ended: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct Shared {
    terms: Terms,
    kept: Arc<Kept>,
    current: watch::Sender<Option<Open>>,
    closing: watch::Sender<bool>,
}

/// A session that was alive when it was last heard of.
#[derive(Debug, Clone)]
struct Open {
    id: Arc<str>,
    lives_until: Moment,
}

type Ready = oneshot::Sender<Result<(), Fault>>;

impl Session {
    /// Begins a session on a thread of its own.
    pub(crate) async fn begin(store: Store, terms: Terms, kept: Arc<Kept>) -> Result<Self, Fault> {
        let (current, closing) = (watch::Sender::new(None), watch::Sender::new(false));
        let shared = Arc::new(Shared { terms, kept, current, closing });
        let (ready, answer) = oneshot::channel();
        let (end, ended) = channel();
        let inner = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lockhouse-consul".into());
        let started = thread.spawn(move || live(&inner, &store, ready, end));
        started.map_err(|error| Fault::Connecting(error.to_string()))?;
        let session = Self { shared, ended: Mutex::new(ended) };
        answer.await.unwrap_or_else(|_| Err(Fault::Connecting("the session's thread ended".into())))?;
        Ok(session)
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.shared.terms
    }

    /// The present session, as soon as there is one.
    pub(crate) async fn current(&self, limit: Duration) -> Result<Arc<str>, Fault> {
        let mut current = self.shared.current.subscribe();
        let found = tokio::time::timeout(limit, current.wait_for(Option::is_some)).await;
        let open = found.ok().and_then(Result::ok).and_then(|open| open.as_ref().map(|open| Arc::clone(&open.id)));
        open.ok_or_else(|| Fault::Connecting(format!("no session could be had within {limit:?}")))
    }

    /// Makes sure that a session lives until then. `false` when it is over.
    pub(crate) async fn cover(&self, link: &Link, id: &str, until: Moment, limit: Duration) -> Result<bool, Fault> {
        let lives_until = self.shared.current.borrow().as_ref().filter(|open| &*open.id == id).map(|o| o.lives_until);
        match lives_until {
            None => Ok(false),
            Some(lives_until) if lives_until >= until => Ok(true),
            Some(_) => self.shared.renew(link, id, limit).await,
        }
    }

    /// Consul does not know this session any more.
    pub(crate) fn lost(&self, id: &str) {
        self.shared.lost(id);
    }

    /// Ends the session and waits until Consul knows, for a moment at most.
    pub(crate) fn end(&self) {
        self.shared.closing.send_replace(true);
        // Later than that the thread ends without us.
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(ENDING);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
    }
}

impl Shared {
    async fn create(&self, link: &Link, limit: Duration) -> Result<(), Fault> {
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        let session = NewSession {
            name: format!("lockhouse {}", lockhouse_core::Owner::process().label()),
            ttl: millis(self.terms.ttl),
            lock_delay: millis(self.terms.lock_delay),
            behavior: self.terms.behavior,
            node: node(&self.terms, link, limit).await?,
            node_checks: [],
            checks: [],
        };
        let sent = Clock::Boot.now();
        // A second one that nobody uses ends by itself.
        let created = link.ask(Method::PUT, "/v1/session/create", json(&session), Repeat::Freely, limit).await?;
        let id: Arc<str> = session_id(&created)?.into();
        self.current.send_replace(Some(Open { id, lives_until: sent + self.terms.ttl }));
        Ok(())
    }

    /// Renews a session. `false` when it is over.
    async fn renew(&self, link: &Link, id: &str, limit: Duration) -> Result<bool, Fault> {
        let sent = Clock::Boot.now();
        let path = format!("/v1/session/renew/{id}");
        let answer = link.ask(Method::PUT, &path, Vec::new(), Repeat::Freely, limit).await?;
        if answer.status == 404 {
            self.lost(id);
            return Ok(false);
        }
        let until = sent + self.terms.ttl;
        self.current.send_if_modified(|open| {
            if let Some(open) = open.as_mut().filter(|open| &*open.id == id) {
                open.lives_until = open.lives_until.max(until);
            }
            // Nobody waits for that.
            false
        });
        Ok(true)
    }

    fn lost(&self, id: &str) {
        let ended = self.current.send_if_modified(|open| open.take_if(|open| &*open.id == id).is_some());
        if ended {
            tracing::warn!("a session has ended, and with it every claim in it");
            self.kept.session_ended(id);
        }
    }
}

/// The thread: one session after the other, until the client is done.
fn live(shared: &Shared, store: &Store, ready: Ready, _end: Sender<()>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(Fault::Connecting(error.to_string())))),
    };
    let mut closing = shared.closing.subscribe();
    runtime.block_on(async {
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => {}
            () = keep(shared, store, ready) => {}
        }
        let open = shared.current.send_replace(None);
        if let Some(Open { id, .. }) = open {
            let path = format!("/v1/session/destroy/{id}");
            let end = store.link.ask(Method::PUT, &path, Vec::new(), Repeat::Freely, ENDING);
            // Otherwise it ends by itself, and others clear away what it met.
            let _ = tokio::join!(end, clear(store, &shared.kept, ENDING));
        }
    });
}

async fn keep(shared: &Shared, store: &Store, ready: Ready) {
    let created = shared.create(&store.link, BEGINNING).await;
    let began = created.is_ok();
    if ready.send(created).is_err() || !began {
        return;
    }
    let mut current = shared.current.subscribe();
    let (mut had_one, mut pause) = (true, shared.terms.tick());
    loop {
        tokio::select! {
            // Another one is needed at once.
            _ = current.wait_for(Option::is_none), if had_one => {}
            () = Clock::Boot.sleep_until(Clock::Boot.now() + pause) => {}
        }
        let open = current.borrow_and_update().clone();
        had_one = open.is_some();
        let outcome = match open {
            Some(open) => {
                let renewed = shared.renew(&store.link, &open.id, shared.terms.limit()).await.map(drop);
                let is_over = || open.lives_until <= Clock::Boot.now() || shared.kept.all_overdue();
                // Attempts that arrive although their answers do not would only keep others waiting.
                if renewed.is_err() && is_over() {
                    shared.lost(&open.id);
                }
                renewed
            }
            None => shared.create(&store.link, shared.terms.limit()).await,
        };
        // What is not done in time is done the next time: the session comes first.
        let limit = shared.terms.limit();
        let _ = tokio::time::timeout(limit, reap(store, &shared.kept, limit)).await;
        pause = match outcome {
            Ok(()) => shared.terms.tick(),
            Err(fault) => {
                tracing::debug!(?fault, "the session could not be renewed; trying again");
                AGAIN
            }
        };
    }
}
