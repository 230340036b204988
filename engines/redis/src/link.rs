//! One connection to a server, made when it is needed and made again when it broke.
//!
//! Commands and messages share it (RESP3 pushes): the subscription is made before the first command is sent, so a claim
//! that is answered "queued" will be told, or the connection breaks, which is told too. When it breaks every waiter is
//! woken, asks again, and so makes the next connection. Nothing runs in the background but where sentinels say which
//! server is the master: there a task asks them from time to time, as long as the connection lives.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::{Clock, Moment, Notices};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, Value};
use tokio::task::JoinSet;

use crate::error::{Fault, breaks_connection};
use crate::life::{Life, is_master};
use crate::route::{Found, Route};

/// The longest that connecting may take, the subscription included.
const LONGEST_CONNECT: Duration = Duration::from_secs(2);
/// A connection on which a request has been waiting for this long, and nothing was heard since, is given up: it may be
/// one of which nobody told us that it is gone.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);

/// So often the sentinels are asked whether another server has taken over. A master that is cut off from them goes on
/// serving whoever reaches it, and tells nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// One connection to a server.
pub(crate) struct Link {
    route: Route,
    channel: String,
    notices: Arc<Notices>,
    live: Mutex<Option<Arc<Live>>>,
    /// Held by whoever connects; the others wait for the outcome.
    connecting: tokio::sync::Mutex<Option<(Moment, Fault)>>,
}

/// A connection as long as it lives.
pub(crate) struct Live {
    connection: MultiplexedConnection,
    pulse: Arc<Pulse>,
    /// The process that it leads to.
    pub(crate) life: Life,
    /// Ends with the connection.
    _watch: JoinSet<()>,
}

/// An answer, and the connection on which it came.
pub(crate) struct Heard {
    pub(crate) value: Value,
    pub(crate) on: Arc<Live>,
}

/// Whether a connection lives.
#[derive(Debug, Default)]
struct Pulse {
    broken: AtomicBool,
    /// When the oldest request was sent that is newer than every answer, in nanoseconds; 0 when there is none.
    unanswered: AtomicU64,
}

impl Pulse {
    fn is_dead(&self) -> bool {
        let since = self.unanswered.load(Ordering::Acquire);
        let silent = since != 0 && Clock::Boot.now().since(Moment::from_nanos(since)) > LONGEST_SILENCE;
        silent || self.broken.load(Ordering::Acquire)
    }

    fn sent(&self, at: Moment) {
        // The first one counts.
        let _ = self.unanswered.compare_exchange(0, at.as_nanos(), Ordering::AcqRel, Ordering::Acquire);
    }

    fn heard(&self) {
        self.unanswered.store(0, Ordering::Release);
    }
}

impl Link {
    /// A link to a server, whose messages go to these waiters. Nothing is sent yet.
    pub(crate) fn new(route: Route, channel: String, notices: Arc<Notices>) -> Self {
        Self { route, channel, notices, live: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    /// The channel on which the server tells this link's waiters.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// Whether messages can come: a waiter that finds out that they cannot should ask.
    pub(crate) fn listens(&self) -> bool {
        self.current().is_some()
    }

    /// Sends a command and waits for its answer, which may be an error of the server's.
    ///
    /// The command is made for the server process that the connection leads to.
    pub(crate) async fn ask(&self, command: impl FnOnce(&Life) -> Cmd, limit: Duration) -> Result<Heard, Fault> {
        let on = self.live().await?;
        let value = self.ask_on(&on, command(&on.life), limit).await?;
        Ok(Heard { value, on })
    }

    /// The same on a connection that was used before, and on no other.
    pub(crate) async fn ask_on(&self, live: &Live, command: Cmd, limit: Duration) -> Result<Value, Fault> {
        let mut connection = live.connection.clone();
        live.pulse.sent(Clock::Boot.now());
        match tokio::time::timeout(limit, command.query_async::<Value>(&mut connection)).await {
            Ok(Ok(value)) => {
                live.pulse.heard();
                Ok(value)
            }
            Ok(Err(error)) => {
                if breaks_connection(&error) {
                    self.give_up(live);
                } else {
                    live.pulse.heard();
                }
                Err(Fault::Asking(error))
            }
            Err(_) => Err(Fault::Silence(limit)),
        }
    }

    async fn live(&self) -> Result<Arc<Live>, Fault> {
        match self.current() {
            Some(live) => Ok(live),
            None => self.connect().await,
        }
    }

    /// The connection, if it lives.
    fn current(&self) -> Option<Arc<Live>> {
        let live = self.slot().clone()?;
        if !live.pulse.is_dead() {
            return Some(live);
        }
        self.give_up(&live);
        None
    }

    async fn connect(&self) -> Result<Arc<Live>, Fault> {
        let began = Clock::Boot.now();
        let mut failed = self.connecting.lock().await;
        // Somebody else has tried since: the outcome is ours too.
        if let Some(live) = self.current() {
            return Ok(live);
        }
        if let Some((at, fault)) = failed.as_ref().filter(|(at, _)| *at >= began) {
            debug_assert!(*at >= began);
            return Err(fault.clone());
        }
        let connected = tokio::time::timeout(LONGEST_CONNECT, self.connect_once()).await;
        let connected = connected.unwrap_or_else(|_| Err(Fault::Away("connecting took too long".into())));
        match connected {
            Ok(live) => {
                let live = Arc::new(live);
                *self.slot() = Some(Arc::clone(&live));
                Ok(live)
            }
            Err(fault) => {
                *failed = Some((Clock::Boot.now(), fault.clone()));
                Err(fault)
            }
        }
    }

    async fn connect_once(&self) -> Result<Live, Fault> {
        let found = self.route.find().await?;
        let connected = self.connect_to(&found).await.map_err(Fault::Connecting)?;
        connected.ok_or_else(|| Fault::Away(format!("{} is a replica, and no other is known yet", found.address)))
    }

    /// Nothing for a server that should be a master and is none.
    async fn connect_to(&self, found: &Found) -> redis::RedisResult<Option<Live>> {
        let pulse = Arc::new(Pulse::default());
        let (heard, notices) = (Arc::clone(&pulse), Arc::clone(&self.notices));
        let on_push = move |push: PushInfo| {
            match (push.kind, push.data.as_slice()) {
                (PushKind::Message, [_, Value::BulkString(message)]) => {
                    notices.hear(&String::from_utf8_lossy(message));
                }
                (PushKind::Disconnection, _) => {
                    heard.broken.store(true, Ordering::Release);
                    notices.wake_all();
                }
                _ => {}
            }
            Ok::<(), std::convert::Infallible>(())
        };
        // The driver's own time limit for answers is off: ours differs from request to request.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(LONGEST_CONNECT))
            .set_response_timeout(None)
            .set_push_sender(on_push);
        let mut connection = found.address.client()?.get_multiplexed_async_connection_with_config(&config).await?;
        if self.route.changes() && !is_master(&mut connection).await? {
            return Ok(None);
        }
        let life = Life::of(&mut connection).await?;
        connection.subscribe(&self.channel).await?;
        let mut watch = JoinSet::new();
        if self.route.changes() {
            watch.spawn(look_again(self.route.clone(), found.clone(), Arc::clone(&pulse), Arc::clone(&self.notices)));
        }
        Ok(Some(Live { connection, pulse, life, _watch: watch }))
    }

    /// Lets go of a connection, if it is still the current one.
    fn give_up(&self, live: &Live) {
        live.pulse.broken.store(true, Ordering::Release);
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(&current.pulse, &live.pulse)) {
            *slot = None;
            drop(slot);
            self.notices.wake_all();
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Breaks a connection when another server has taken over. Whoever asks next is led there, and what this one has
/// granted since is not known there: it is lost with its next renewal.
async fn look_again(route: Route, found: Found, pulse: Arc<Pulse>, notices: Arc<Notices>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        // Sentinels that do not answer say nothing about the master.
        if let Ok(other) = route.find().await
            && other.replaces(&found)
        {
            tracing::warn!("{} has taken over from {}", other.address, found.address);
            pulse.broken.store(true, Ordering::Release);
            notices.wake_all();
            return;
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("channel", &self.channel).field("listens", &self.listens()).finish_non_exhaustive()
    }
}
