//! The connection on which a client is told of its waiters' turns. It is made when somebody waits for the first time.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockhouse_core::{Clock, Moment, Notices};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use crate::address::LONGEST_CONNECT;
use crate::error::{Fault, Unconnected};

/// Nothing is ever asked for on this connection, so nobody would notice that it is gone: it is tried this often.
const TRIED: Duration = Duration::from_secs(5);
/// It is given up when no answer comes within this time.
const LONGEST_SILENCE: Duration = Duration::from_secs(3);

/// Listens for one client.
pub(crate) struct Listener {
    config: Config,
    channel: String,
    notices: Arc<Notices>,
    /// Held by whoever connects; the others wait for the outcome.
    ear: Mutex<Option<Ear>>,
}

/// A connection that listens. Ends when it is dropped.
struct Ear {
    since: Moment,
    deaf: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
}

impl Listener {
    /// A listener for these waiters. It does not listen yet.
    pub(crate) fn new(config: Config, channel: String, notices: Arc<Notices>) -> Self {
        Self { config, channel, notices, ear: Mutex::default() }
    }

    /// The channel on which the server tells this client.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// Listens, and says since when. What was told before is not heard.
    ///
    /// # Cancellation safety
    /// A connection that is being made is closed.
    pub(crate) async fn listens_since(&self) -> Result<Moment, Fault> {
        let mut ear = self.ear.lock().await;
        if let Some(ear) = ear.as_ref().filter(|ear| !ear.deaf.load(Ordering::Acquire)) {
            return Ok(ear.since);
        }
        *ear = None;
        let new = timeout(LONGEST_CONNECT, self.listen()).await.unwrap_or(Err(Unconnected::Slow));
        Ok(ear.insert(new.map_err(Fault::Connecting)?).since)
    }

    async fn listen(&self) -> Result<Ear, Unconnected> {
        let (client, mut connection) = self.config.connect(NoTls).await?;
        let deaf = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        let gone = Gone { deaf: Arc::clone(&deaf), notices: Arc::clone(&self.notices) };
        tasks.spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(told) = message {
                    gone.notices.hear(told.payload());
                }
            }
        });
        // A channel of ours has letters, digits and underscores alone.
        client.batch_execute(&format!("LISTEN {}", self.channel)).await?;
        let gone = Gone { deaf: Arc::clone(&deaf), notices: Arc::clone(&self.notices) };
        tasks.spawn(keep_trying(client, gone));
        Ok(Ear { since: Clock::Boot.now(), deaf, _tasks: tasks })
    }
}

/// Resolves when the connection does not answer any more.
async fn keep_trying(client: Client, gone: Gone) {
    loop {
        sleep(TRIED).await;
        if !matches!(timeout(LONGEST_SILENCE, client.check_connection()).await, Ok(Ok(()))) {
            drop(gone);
            return;
        }
    }
}

/// Dropped when nothing is heard any more, for whatever reason: then everybody should ask.
struct Gone {
    deaf: Arc<AtomicBool>,
    notices: Arc<Notices>,
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.deaf.store(true, Ordering::Release);
        self.notices.wake_all();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration knows the password.
        f.debug_struct("Listener").field("channel", &self.channel).finish_non_exhaustive()
    }
}
