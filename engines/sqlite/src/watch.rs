//! Waking the waiters of a client when others have moved them, and noticing holders that are gone.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockhouse_core::{ClaimId, Clock, Moment, Name, Result, Standing};
use rusqlite::params;

use crate::bell::Bell;
use crate::line::{WAITS, find, sql};
use crate::store::{PATIENCE, Store};
use crate::waiters::Waiters;

/// How often the file is looked at while somebody waits: nobody tells of a crash, and a ring can get lost.
const POLL: Duration = Duration::from_millis(100);
/// The same where nobody can ring.
const POLL_UNRUNG: Duration = Duration::from_millis(20);
/// Timers of the runtime are not finer.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// The watch of one client. It keeps nothing alive: when the client's stores are gone it ends.
#[derive(Debug)]
pub(crate) struct Watch {
    store: Weak<Store>,
    waiters: Arc<Waiters>,
    /// Hung up when somebody waits for the first time: most clients never do.
    bell: Option<Bell>,
    /// The file's version at the last look.
    version: Option<(i64, u64)>,
    /// Whether it was another one before, and nobody has looked yet who is not in line any more.
    stale: bool,
    /// The holders of the names that are waited for, as of the last look.
    seen: HashMap<Name, Holders>,
}

/// Who holds a name.
#[derive(Debug, Default)]
struct Holders {
    clients: Vec<i64>,
    first_end: Option<Moment>,
}

impl Watch {
    /// A watch for a client's waiters.
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        let waiters = Arc::clone(&store.client.waiters);
        Self { store: Arc::downgrade(store), waiters, bell: None, version: None, stale: false, seen: HashMap::new() }
    }

    /// Watches until the client is gone. There are no ticks while nobody waits.
    pub(crate) async fn run(mut self) {
        loop {
            self.waiters.some().await;
            let rung = match &self.bell {
                Some(bell) => tokio::select! {
                    () = bell.rung() => true,
                    () = tokio::time::sleep(self.nap(bell)) => false,
                },
                None => false,
            };
            let Some(store) = self.store.upgrade() else {
                return;
            };
            // Hung up before the look, so that whatever happens is either seen or heard.
            self.bell.get_or_insert_with(|| store.client.bell());
            if let Err(error) = self.look(&store, rung).await {
                // The next look may go better, and the waiters' own poll is behind it.
                tracing::debug!(%error, "cannot look after waiters");
                self.version = None;
            }
        }
    }

    /// Until the next tick, or until the first lease of a holder is over.
    fn nap(&self, bell: &Bell) -> Duration {
        let poll = if bell.hears() { POLL } else { POLL_UNRUNG };
        let now = Clock::Boot.now();
        let ends = self.seen.values().filter_map(|holders| holders.first_end);
        ends.map(|end| end.since(now)).fold(poll, Duration::min).max(SHORTEST_NAP)
    }

    async fn look(&mut self, store: &Store, rung: bool) -> Result<()> {
        let names = self.waiters.names();
        let version = store.version().await?;
        let changed = self.version != Some(version);
        self.stale |= changed;
        self.seen.retain(|name, _| names.contains(name));
        for name in &names {
            if rung || changed || !self.seen.contains_key(name) {
                self.wake(store, name).await?;
            }
            // Costs a search for each waiter, so it is left to the ticks.
            if !rung && self.stale {
                self.wake_vanished(store, name).await?;
            }
        }
        self.stale &= rung;
        self.version = Some(version);
        for name in &names {
            if self.is_over(store, name) {
                store.write(PATIENCE, |tx| tx.tidy(name, None)).await?;
                self.wake(store, name).await?;
            }
        }
        Ok(())
    }

    /// Tells those that hold by now, and remembers who holds.
    async fn wake(&mut self, store: &Store, name: &Name) -> Result<()> {
        let rows = store
            .read(|connection| {
                let mut holders = connection.prepare_cached(sql!("holders"))?;
                let rows = holders.query_map(params![name.as_str()], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?;
                Ok(rows.collect::<Result<Vec<([u8; 16], i64, Option<i64>, i64)>, _>>()?)
            })
            .await?;
        let mut holders = Holders::default();
        for (id, token, client, end) in rows {
            let end = Moment::from_nanos(end.cast_unsigned());
            holders.first_end = Some(holders.first_end.map_or(end, |first| first.min(end)));
            match client {
                Some(client) if client == store.client.id => {
                    let standing = Standing::Granted { token: token.cast_unsigned() };
                    self.waiters.tell(name, &ClaimId::from_bytes(id), Some(standing));
                }
                Some(client) if !holders.clients.contains(&client) => holders.clients.push(client),
                _ => {}
            }
        }
        self.seen.insert(name.clone(), holders);
        Ok(())
    }

    /// Tells those that are not in line any more: they should ask.
    async fn wake_vanished(&self, store: &Store, name: &Name) -> Result<()> {
        let waiting = self.waiters.of(name);
        let vanished = store
            .read(|connection| {
                let mut vanished = Vec::new();
                for id in &waiting {
                    if find(connection, name, id)?.is_none_or(|stored| stored.state != WAITS) {
                        vanished.push(*id);
                    }
                }
                Ok(vanished)
            })
            .await?;
        vanished.iter().for_each(|id| self.waiters.tell(name, id, None));
        Ok(())
    }

    /// Whether a holder's lease is over, or its client dead.
    fn is_over(&self, store: &Store, name: &Name) -> bool {
        let now = Clock::Boot.now();
        self.seen.get(name).is_some_and(|holders| {
            holders.first_end.is_none_or(|end| end <= now)
                || holders.clients.iter().any(|&client| store.client.is_dead(Some(client)))
        })
    }
}
