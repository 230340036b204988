//! The session: one for each client, on a thread of its own, used by both sides.
//!
//! The driver's tasks live on this thread, whatever the caller's runtime does; requests reach them from any other. The
//! thread opens a new session when one has ended, takes out the claims whose leases are over, and closes the session
//! when the client is done, so that a server does not keep it until its time-out.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockhouse_core::Clock;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{oneshot, watch};
use zookeeper_client::{Client, Error as Said, SessionState};

use crate::address::Address;
use crate::error::Fault;
use crate::leases::Leases;
use crate::reaper;
use crate::server_clock::ServerClock;
use crate::tunnel::Tunnels;

/// The longest that opening a session may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// The pause before a session is tried to be opened again.
const AGAIN: Duration = Duration::from_millis(200);
/// How often a client without a connection looks whether anything of its session is left.
const LOOKING: Duration = Duration::from_millis(50);
/// The longest that a client which is done waits for its session to be closed.
const CLOSING: Duration = Duration::from_secs(1);
/// A connection on which nothing comes for a fifth of the session's time-out is given up, and no later than this: a
/// renewal may have been a third of it ago, and the next server that is tried may stand still as well.
const QUIET: Duration = Duration::from_secs(4);

/// A session that is open, and the runtime of its tasks.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) client: Arc<Client>,
    pub(crate) runtime: Handle,
}

impl Open {
    /// What tells it from other sessions.
    pub(crate) fn id(&self) -> i64 {
        self.client.session_id().0
    }
}

/// The sessions of one client, one after the other.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Hears of the thread's end.
    ended: Mutex<Receiver<()>>,
    /// What the servers granted.
    pub(crate) timeout: Duration,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    leases: Leases,
    clock: ServerClock,
    current: watch::Sender<Option<Open>>,
    closing: watch::Sender<bool>,
    /// What the servers granted the first session. Leases go by it, so that no later one may have less.
    timeout: OnceLock<Duration>,
}

type Ready = oneshot::Sender<Result<Duration, Fault>>;

impl Session {
    /// Opens a session on a thread of its own.
    pub(crate) async fn open(address: Address) -> Result<Self, Fault> {
        let (current, closing) = (watch::Sender::new(None), watch::Sender::new(false));
        let shared = Arc::new(Shared {
            address,
            leases: Leases::default(),
            clock: ServerClock::default(),
            current,
            closing,
            timeout: OnceLock::new(),
        });
        let (ready, answer) = oneshot::channel();
        let (end, ended) = channel();
        let inner = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lockhouse-zookeeper".into());
        let started = thread.spawn(move || live(&inner, ready, end));
        started.map_err(|error| Fault::Connecting(Said::UnexpectedError(error.to_string())))?;
        let timeout = answer.await.unwrap_or(Err(Fault::Connecting(Said::ClientClosed)))?;
        Ok(Self { shared, ended: Mutex::new(ended), timeout })
    }

    /// The claims of the client.
    pub(crate) fn leases(&self) -> &Leases {
        &self.shared.leases
    }

    /// The servers' clock.
    pub(crate) fn clock(&self) -> &ServerClock {
        &self.shared.clock
    }

    /// A session with a connection, as soon as there is one: nothing is sent into the void.
    ///
    /// # Errors
    /// [`Fault::Away`] when there is none within the limit.
    pub(crate) async fn connected(&self, limit: Duration) -> Result<Open, Fault> {
        let found = tokio::time::timeout(limit, async {
            let mut current = self.shared.current.subscribe();
            loop {
                let open = current.borrow_and_update().clone();
                let Some(open) = open else {
                    // The sender is in `self`.
                    let _ = current.changed().await;
                    continue;
                };
                let mut states = open.client.state_watcher();
                if states.peek_state() == SessionState::SyncConnected {
                    return open;
                }
                tokio::select! {
                    _ = current.changed() => {}
                    _ = states.changed() => {}
                }
            }
        });
        found.await.map_err(|_| Fault::Away(limit))
    }

    /// Closes the session and waits until the servers know, for a moment at most.
    pub(crate) fn close(&self) {
        self.shared.closing.send_replace(true);
        // Later than that the thread ends without us.
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(CLOSING);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
    }
}

/// The thread: one session after the other, until the client is done.
fn live(shared: &Shared, ready: Ready, _end: Sender<()>) {
    let mut ready = Some(ready);
    while !*shared.closing.borrow() {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(%error, "no runtime for a session can be had");
                return;
            }
        };
        let next = runtime.block_on(one_session(shared, &runtime, &mut ready));
        // With everything the driver still does: attempts to get a session back that was given up would keep it alive.
        drop(runtime);
        if next.is_none() {
            return;
        }
    }
}

/// One session from its beginning to its end. `None` when there shall be no other.
async fn one_session(shared: &Shared, runtime: &Runtime, ready: &mut Option<Ready>) -> Option<()> {
    let mut closing = shared.closing.subscribe();
    let opened = tokio::select! {
        _ = closing.wait_for(|closing| *closing) => return None,
        opened = open(&shared.address) => opened,
    };
    // The way to the servers lasts as long as the session.
    let (client, _tunnels) = match opened {
        Ok(opened) => opened,
        Err(fault) => {
            if let Some(ready) = ready.take() {
                let _ = ready.send(Err(fault));
                return None;
            }
            tracing::debug!(?fault, "no session could be opened; trying again");
            tokio::time::sleep(AGAIN).await;
            return Some(());
        }
    };
    let (id, timeout) = (client.session_id().0, client.session_timeout());
    if timeout < *shared.timeout.get_or_init(|| timeout) {
        tracing::error!(?timeout, "the servers grant shorter sessions than before: start this program anew");
        tokio::time::sleep(AGAIN).await;
        return Some(());
    }
    let mut states = client.state_watcher();
    let client = Arc::new(client);
    shared.current.send_replace(Some(Open { client: Arc::clone(&client), runtime: runtime.handle().clone() }));
    if ready.take().is_some_and(|ready| ready.send(Ok(timeout)).is_err()) {
        // Whoever wanted it has gone away.
        shared.closing.send_replace(true);
    }
    let closes = tokio::select! {
        _ = closing.wait_for(|closing| *closing) => true,
        () = given_up(&client, &shared.leases) => false,
        () = reaper::reap(&client, &shared.leases) => false,
    };
    shared.current.send_replace(None);
    shared.leases.session_ended(id);
    drop(client);
    if !closes {
        return Some(());
    }
    // The driver closes the session when nobody uses it any more.
    let closed = async { while !states.changed().await.is_terminated() {} };
    let _ = tokio::time::timeout(CLOSING, closed).await;
    None
}

async fn open(address: &Address) -> Result<(Client, Option<Tunnels>), Fault> {
    let quiet = (address.session / 5).min(QUIET);
    // Not given up when all have refused us once: they do, while they elect a leader.
    let mut connector = Client::connector().with_session_timeout(address.session).with_connection_timeout(quiet);
    if let Some(credentials) = &address.credentials {
        connector = connector.with_auth("digest", credentials.as_bytes());
    }
    let unexpected = |what: String| Fault::Connecting(Said::UnexpectedError(what));
    let tunnels = match &address.trust {
        Some(trust) => Some(Tunnels::open(&address.hosts, trust).await.map_err(|error| unexpected(error.to_string()))?),
        None => None,
    };
    let cluster = tunnels.as_ref().map_or_else(|| address.cluster(), Tunnels::cluster);
    let opened = tokio::time::timeout(CONNECTING, connector.connect(&cluster)).await;
    match opened.unwrap_or(Err(Said::Timeout)) {
        Ok(client) => Ok((client, tunnels)),
        Err(said) => {
            let failure = tunnels.and_then(|tunnels| tunnels.failure());
            Err(failure.map_or(Fault::Connecting(said), |failure| unexpected(format!("through TLS: {failure}"))))
        }
    }
}

/// Resolves when the session is over: because the servers say so, or because nothing of it is left.
///
/// A client without a connection tries to get its session back. When every lease in it is over meanwhile, that would
/// only keep others waiting: attempts that arrive, although their answers do not, keep a session alive.
async fn given_up(client: &Client, leases: &Leases) {
    let mut states = client.state_watcher();
    let mut state = client.state();
    loop {
        if state.is_terminated() {
            return;
        }
        if state == SessionState::Disconnected {
            if leases.all_over(client.session_id().0) {
                tracing::debug!("a session without a connection is given up: every lease in it is over");
                return;
            }
            tokio::select! {
                changed = states.changed() => state = changed,
                () = Clock::Boot.sleep_until(Clock::Boot.now() + LOOKING) => {}
            }
        } else {
            state = states.changed().await;
        }
    }
}
