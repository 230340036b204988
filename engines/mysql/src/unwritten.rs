//! Locks that were given back although that is not written down yet.
//!
//! A lock by session that nobody else seems to want is given back by a row in a table that the server keeps in memory:
//! it outlives its client, waits for no disk, and everybody takes a claim that stands there for one that is over. The
//! lock's own row is written a moment later: the next claim of this client does that anyway, and if none comes the
//! keeper does. A server that crashes in between honours the claim once more, until its lease is over.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lockhouse_core::{Claim, ClaimId, Name};
use tokio::sync::Notify;

use crate::error::Fault;
use crate::pool::{Pool, Request, Session};
use crate::statement::{Tables, Value, sql};

/// How long the keeper leaves it to the next claim.
const A_WHILE: Duration = Duration::from_millis(50);
/// So many are written down at once.
const AT_ONCE: usize = 250;
const LIMIT: Duration = Duration::from_secs(4);

/// What both sides of a client know of it.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    /// The server can keep such a table.
    works: AtomicBool,
    state: Mutex<State>,
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// All that the keeper is yet to write down.
    told: HashMap<ClaimId, Name>,
    /// The last of each name: the claim that its lock's row may still show.
    last: HashMap<Name, ClaimId>,
}

impl Unwritten {
    /// Whether the server can keep such a table.
    pub(crate) fn works(&self) -> bool {
        self.works.load(Ordering::Acquire)
    }

    pub(crate) fn set_works(&self, works: bool) {
        self.works.store(works, Ordering::Release);
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
        state.told.insert(claim.id, claim.name.clone());
        state.last.insert(claim.name.clone(), claim.id);
        self.more.notify_one();
    }

    fn some(&self) -> Vec<(ClaimId, Name)> {
        self.state().told.iter().take(AT_ONCE).map(|(id, name)| (*id, name.clone())).collect()
    }

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

/// Gives back the lock of a claim that stands in the lock's row. `false` when it does not stand there, or the server
/// cannot keep that in memory: then nothing has happened.
#[derive(Debug)]
pub(crate) struct Telling<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) unwritten: &'a Unwritten,
    pub(crate) claim: &'a Claim,
}

impl Request for Telling<'_> {
    type Answer = bool;

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<bool, Fault> {
        let key = [("id", Value::id(&self.claim.id)), ("name", Value::name(&self.claim.name))];
        match session.execute(self.tables, sql!("tell"), &key).await {
            Ok(told) => Ok(told.changed == 1),
            // The table is full, say, or gone. Whatever it is, there is the long way.
            Err(fault) if fault.is_the_servers() => {
                tracing::debug!(?fault, "releases are written down at once from now on");
                self.unwritten.set_works(false);
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
        loop {
            tokio::time::sleep(A_WHILE).await;
            let (Some(pool), claims) = (pool.upgrade(), unwritten.some()) else { return };
            if claims.is_empty() {
                break;
            }
            match pool.run(LIMIT, &WritingDown { tables: &tables, claims: &claims }).await {
                Ok(()) => unwritten.written(&claims),
                Err(error) => tracing::debug!(%error, "cannot write down what was given back: it is tried again"),
            }
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

    async fn carry_out(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        let ids = Value::list(self.claims.iter().map(|(id, _)| Value::id(id)));
        let mut names: Vec<&Name> = self.claims.iter().map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        let names = Value::list(names.into_iter().map(Value::name));
        session.write(&self.tables.write(sql!("write_down"), &[("ids", ids), ("names", names)])).await.map(drop)
    }
}
