//! A connection that holds locks: the server frees them when it ends.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::address::LONGEST_CONNECT;
use crate::dial::Dial;
use crate::error::{Fault, Unconnected, breaks_connection};
use crate::hold::Silence;
use crate::pool::Value;
use crate::pooler::backend;
use crate::tables::sql;

/// How long one statement waits for a lock that somebody else has. Then it asks anew: while a statement runs, the
/// server does not notice that its client is silent, and cannot clean up what others delete.
const WAITS: Duration = Duration::from_secs(1);

/// A connection that holds locks. Many may ask on it at once. It is tried regularly, ends when it is dropped, and
/// whoever holds something by it is told when it breaks.
///
/// It lives on the runtime on which it was made: the keeper's.
pub(crate) struct Holding {
    client: Client,
    /// What the server calls it: no other has the same.
    label: String,
    /// The process of the server that answers, and has the locks.
    backend: i32,
    silence: Silence,
    prepared: Mutex<HashMap<String, Statement>>,
    broken: watch::Sender<bool>,
    /// What carries its messages, and what tries it.
    tasks: Mutex<JoinSet<()>>,
}

impl Holding {
    /// Connects, and has the server end the connection when it is silent for so long.
    pub(crate) async fn connect(dial: &Dial, silence: Silence) -> Result<Arc<Self>, Fault> {
        let label = format!("lockhouse holding {:016x}", rand::random::<u64>());
        let dial = dial.named(&label);
        let connecting = async {
            let (client, connection) = dial.connect().await?;
            let (broken, mut tasks) = (watch::Sender::new(false), JoinSet::new());
            let gone = broken.clone();
            tasks.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection that holds locks broke");
                }
                gone.send_replace(true);
            });
            client.batch_execute(sql!("ask/settings")).await?;
            let backend = set_times(&client, silence).await?;
            Ok(Self { client, label, backend, silence, prepared: Mutex::default(), broken, tasks: Mutex::new(tasks) })
        };
        let connected = timeout(LONGEST_CONNECT, connecting).await.unwrap_or(Err(Unconnected::Slow));
        let holding = Arc::new(connected.map_err(Fault::Connecting)?);
        let tried = Arc::downgrade(&holding);
        holding.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(keep_trying(tried, silence));
        Ok(holding)
    }

    /// What the server calls this connection.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Sends a statement and waits for its rows. A connection that gives no answer in time is given up.
    pub(crate) async fn ask(&self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        self.ask_within(self.silence.longest_answer(), text, values).await
    }

    /// Sends a statement that may wait for a lock.
    pub(crate) async fn wait(&self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        self.ask_within(self.silence.longest_answer() + WAITS, text, values).await
    }

    async fn ask_within(&self, limit: Duration, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        match timeout(limit, self.query(text, values)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => {
                if breaks_connection(&error) {
                    self.give_up();
                }
                Err(Fault::Asking(error))
            }
            Err(_) => {
                self.give_up();
                Err(Fault::Silence(limit))
            }
        }
    }

    /// Sends statements without values, such as those that begin and end a transaction.
    pub(crate) async fn tell(&self, text: &str) -> Result<(), Fault> {
        let limit = self.silence.longest_answer();
        match timeout(limit, self.client.batch_execute(text)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Fault::Asking(error)),
            Err(_) => {
                self.give_up();
                Err(Fault::Silence(limit))
            }
        }
    }

    /// Whether the server answers within this time, or the longest that an answer may take: then everything that is
    /// held by this connection is. A pooler may have begun to lend connections for single transactions: when another
    /// process answers, it is not known who has the locks, and the connection is given up.
    pub(crate) async fn answers(&self, within: Duration) -> bool {
        let limit = within.min(self.silence.longest_answer());
        match timeout(limit, backend(&self.client)).await {
            Ok(Ok(backend)) if backend != self.backend => {
                tracing::warn!("a pooler lends connections for single transactions: no lock can be held by one");
                self.give_up();
                false
            }
            Ok(Ok(_)) => true,
            // In a transaction that failed nothing else is answered.
            Ok(Err(error)) => !breaks_connection(&error),
            Err(_) => false,
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        *self.broken.borrow() || self.client.is_closed()
    }

    /// Resolves when nothing is held by this connection any more.
    pub(crate) async fn broken(&self) {
        // It fails only when the sender is gone, and that is here.
        let _ = self.broken.subscribe().wait_for(|broken| *broken).await;
    }

    /// Closes it.
    pub(crate) fn give_up(&self) {
        self.broken.send_replace(true);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    async fn query(&self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, tokio_postgres::Error> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let types: Vec<Type> = values.iter().map(|(_, kind)| kind.clone()).collect();
                let statement = self.client.prepare_typed(text, &types).await?;
                let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
                prepared.insert(text.to_owned(), statement.clone());
                statement
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
        self.client.query(&statement, &values).await
    }
}

/// Gives the process that answers.
async fn set_times(client: &Client, silence: Silence) -> Result<i32, tokio_postgres::Error> {
    let Silence(silence) = silence;
    let (millis, third) = (silence.as_millis().to_string(), (silence / 3).as_millis().to_string());
    // Asked for the first time, and then four times, it takes no less than the silence.
    let seconds = |part: u64| silence.as_secs().div_ceil(part).max(1).to_string();
    let (idle, interval, waits) = (seconds(3), seconds(6), WAITS.as_millis().to_string());
    let values = [&millis, &third, &idle, &interval, &waits].map(|value| (value as &(dyn ToSql + Sync), Type::TEXT));
    let set = client.query_typed(sql!("ask/holding"), &values).await?;
    set.first().map_or(Ok(0), |row| row.try_get(1))
}

async fn keep_trying(holding: Weak<Holding>, silence: Silence) {
    loop {
        sleep(silence.tried()).await;
        let Some(holding) = holding.upgrade() else { return };
        if !holding.answers(silence.longest_answer()).await {
            return holding.give_up();
        }
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("label", &self.label).field("broken", &self.is_broken()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use lockhouse_testkit::{PgBouncer, Postgres};

    use super::*;
    use crate::address::Address;

    const SILENCE: Silence = Silence(Duration::from_secs(2));

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_that_a_pooler_begins_to_lend_to_others_holds_nothing() {
        let server = Postgres::start(&[]);
        let pooler = PgBouncer::start(&server, &["pool_mode=session", "server_round_robin=1"]);
        let dial = Dial::to(&Address::parse(&pooler.address()).unwrap(), None).unwrap();
        let holding = Holding::connect(&dial, SILENCE).await.unwrap();
        let (other, connection) = dial.connect().await.unwrap();
        let mut others = JoinSet::new();
        others.spawn(async move { drop(connection.await) });
        others.spawn(async move { while other.simple_query("SELECT pg_sleep(random() / 1000)").await.is_ok() {} });
        sleep(SILENCE.tried() * 3).await;
        assert!(!holding.is_broken(), "it was tried, and the same process answers");
        pooler.change(&["pool_mode=transaction", "server_round_robin=1"]);
        timeout(SILENCE.tried() * 40, holding.broken()).await.expect("another process answers some time");
    }
}
