//! Locks that were given back although that is not written down yet.
//!
//! A lock by session that nobody else seems to want is given back by a row in a table that the server keeps in memory:
//! it outlives its client, waits for no disk, and everybody takes a claim that stands there for one that is over. The
//! lock's own row is written a moment later: the next claim of this client does that anyway, and if none comes the
//! keeper does. A server that crashes in between honours the claim once more, until its lease is over.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId, Clock, Error, Kind, Moment, Name, Withdrawal};
use mysql_async::Row;
use tokio::sync::Notify;

use crate::claims::Withdrawing;
use crate::error::Fault;
use crate::line::id;
use crate::pool::{Pool, Request, Session, column, set};
use crate::statement::{Tables, Value, sql};

/// How long the keeper leaves it to the next claim, and how long it waits at most when the server fails.
const A_WHILE: Duration = Duration::from_millis(50);
const A_LONG_WHILE: Duration = Duration::from_secs(5);
/// A server that refused is not asked again for so long.
const REFUSED: Duration = Duration::from_secs(60);
/// So many are written down at once.
const AT_ONCE: usize = 250;
const LIMIT: Duration = Duration::from_secs(4);

/// What both sides of a client know of it.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    state: Mutex<State>,
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The server can keep such a table.
    has_memory: bool,
    refused: Option<Moment>,
    /// All that the keeper is yet to write down.
    told: HashMap<ClaimId, Name>,
    /// The last of each name: the claim that its lock's row may still show.
    last: HashMap<Name, ClaimId>,
}

impl Unwritten {
    /// Whether the server can keep such a table.
    pub(crate) fn has_memory(&self, has_memory: bool) {
        self.state().has_memory = has_memory;
    }

    /// The server refused, or takes too long: the table is full, say, or somebody reads it at leisure.
    pub(crate) fn refused(&self, why: &dyn fmt::Debug) {
        tracing::debug!(?why, "for a minute, what is given back is written down at once");
        self.state().refused = Some(Clock::Boot.now());
    }

    /// A claim was not told to be over. If it took too long, the others need not try.
    pub(crate) fn failed(&self, error: &Error) {
        if error.kind() == Kind::TimedOut && self.state().has_memory {
            self.refused(error);
        }
    }

    /// Whether the server can keep such a table, and has not refused lately.
    pub(crate) fn is_well(&self) -> bool {
        let state = self.state();
        state.has_memory && state.refused.is_none()
    }

    /// Whether it is worth a try. After a minute one tries again, and the others when that one was told.
    fn works(&self) -> bool {
        let mut state = self.state();
        let now = Clock::Boot.now();
        if !state.has_memory || state.refused.is_some_and(|refused| now.since(refused) <= REFUSED) {
            return false;
        }
        state.refused = state.refused.map(|_| now);
        true
    }

    /// The claim of this client that a lock's row may show although it was given back.
    pub(crate) fn last(&self, name: &Name) -> Option<ClaimId> {
        self.state().last.get(name).copied()
    }

    /// Whether a claim was given back, and that is not written down yet.
    pub(crate) fn knows(&self, id: &ClaimId) -> bool {
        self.state().told.contains_key(id)
    }

    /// Everybody can see that a claim was given back.
    pub(crate) fn told(&self, claim: &Claim) {
        let mut state = self.state();
        state.refused = None;
        state.told.insert(claim.id, claim.name.clone());
        state.last.insert(claim.name.clone(), claim.id);
        drop(state);
        self.more.notify_one();
    }

    /// Some of them.
    fn some(&self) -> Vec<(ClaimId, Name)> {
        self.state().told.iter().take(AT_ONCE).map(|(id, name)| (*id, name.clone())).collect()
    }

    /// Those are written down.
    fn written(&self, some: &[(ClaimId, Name)]) {
        let mut state = self.state();
        for (id, name) in some {
            state.told.remove(id);
            if state.last.get(name) == Some(id) {
                state.last.remove(name);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `withdraw`, of a claim that holds a lock which nobody else seems to want.
#[derive(Debug)]
pub(crate) struct Telling<'a> {
    pub(crate) withdrawing: Withdrawing<'a>,
    pub(crate) unwritten: &'a Unwritten,
}

impl Request for Telling<'_> {
    /// And whether it is yet to be written down.
    type Answer = (Withdrawal, bool);

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<Self::Answer, Fault> {
        if self.unwritten.works() && self.tell(session).await? {
            return Ok((Withdrawal::Withdrawn, true));
        }
        Ok((self.withdrawing.carry_out(session).await?, false))
    }
}

impl Telling<'_> {
    /// `false` when the claim does not stand in its lock's row, or the server cannot keep that in memory.
    async fn tell(&self, session: &mut Session<'_>) -> Result<bool, Fault> {
        let Withdrawing { tables, claim } = self.withdrawing;
        let values = [("id", Value::id(&claim.id)), ("name", Value::name(&claim.name)), ("ttl", Value::lease(claim))];
        match session.execute(tables, sql!("tell"), &values).await {
            Ok(told) => Ok(told.changed == 1),
            // Whatever it is, there is the long way.
            Err(fault) if fault.is_the_servers() => {
                self.unwritten.refused(&fault);
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }
}

/// Writes down what was given back, until the client is gone.
pub(crate) async fn write_down(pool: Weak<Pool>, tables: Arc<Tables>, unwritten: Arc<Unwritten>) {
    loop {
        unwritten.more.notified().await;
        let mut pause = A_WHILE;
        loop {
            tokio::time::sleep(pause).await;
            let (Some(pool), claims) = (pool.upgrade(), unwritten.some()) else { return };
            if claims.is_empty() {
                break;
            }
            pause = match pool.run(LIMIT, &WritingDown { tables: &tables, claims: &claims }).await {
                Ok(()) => {
                    unwritten.written(&claims);
                    if claims.len() == AT_ONCE { Duration::ZERO } else { A_WHILE }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot write down what was given back: it is tried again");
                    (2 * pause).clamp(A_WHILE, A_LONG_WHILE)
                }
            };
        }
    }
}

#[derive(Debug)]
struct WritingDown<'a> {
    tables: &'a Tables,
    claims: &'a [(ClaimId, Name)],
}

impl Request for WritingDown<'_> {
    type Answer = ();

    // For a claim that somebody is about to remove, say: it must not keep renewals waiting.
    const WAITS: bool = true;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        let ids = Value::list(self.claims.iter().map(|(id, _)| Value::id(id)));
        let mut names: Vec<&Name> = self.claims.iter().map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        let names = Value::list(names.into_iter().map(Value::name));
        let values = [("ids", ids), ("names", names)];
        let sets = session.write(&self.tables.write(sql!("write_down"), &values)).await?;
        // One by one, by their keys: a search for many may read the whole table, and wait for rows of others.
        let remove = |row: &Row| {
            let key = [("id", Value::id(&id(row, 0)?)), ("name", Value::bytes(&column::<Vec<u8>>(row, 1)?))];
            Ok(self.tables.write(sql!("remove"), &key))
        };
        let removed = set(&sets, 1)?.rows.iter().map(remove).collect::<Result<String, Fault>>()?;
        session.write(&(removed + &self.tables.write(sql!("written"), &values))).await.map(drop)
    }
}
