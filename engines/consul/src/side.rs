//! One side of a client: its connections, and what it shares with the other side.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use lockhouse_core::{Claim, Error, Kind, Name, Result};

use crate::api::{Kv, read};
use crate::checkup::Myself;
use crate::error::{ENGINE, Fault};
use crate::kept::Kept;
use crate::link::Repeat;
use crate::session::Session;
use crate::store::{Look, Store};
use crate::watches::Watches;

/// A request that is about no lease is given up after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// The shortest time a request is given.
const IMPATIENCE: Duration = Duration::from_millis(200);

/// One side of a client.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) store: Store,
    pub(crate) session: Arc<Session>,
    pub(crate) kept: Arc<Kept>,
    pub(crate) watches: Watches,
    pub(crate) topology: Topology,
    /// This is the keeper's side, where somebody can wait for the session's end.
    keeper: bool,
}

/// What promises depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Topology {
    /// How many servers agree among themselves.
    pub(crate) servers: usize,
    /// An agent for development forgets everything when it ends.
    pub(crate) forgetful: bool,
}

impl Side {
    /// Finds out who is there.
    pub(crate) async fn greet(store: Store, session: Arc<Session>, kept: Arc<Kept>, keeper: bool) -> Result<Self> {
        let topology = topology(&store).await.map_err(|fault| store.link.explain(fault))?;
        let watches = Watches::new(Arc::clone(&store.link));
        Ok(Self { store, session, kept, watches, topology, keeper })
    }

    pub(crate) fn explain(&self, fault: Fault) -> Error {
        self.store.link.explain(fault)
    }

    /// Looks at a line.
    pub(crate) async fn line(&self, name: &Name, limit: Duration) -> Result<Look> {
        let look = self.store.line(name, limit).await.map_err(|fault| self.explain(fault))?;
        Ok(self.noted(look))
    }

    /// The line that a transaction has read.
    pub(crate) fn seen(&self, name: &Name, kvs: &[Kv]) -> Look {
        self.noted(self.store.seen(name, kvs))
    }

    /// What has been left behind is cleared away later, so that nobody waits for it.
    fn noted(&self, look: Look) -> Look {
        self.kept.met(&look.left_behind);
        look
    }
}

async fn topology(store: &Store) -> Result<Topology, Fault> {
    let ask = async |path| store.link.ask(Method::GET, path, Vec::new(), Repeat::Freely, PATIENCE).await;
    let (peers, myself) = tokio::join!(ask("/v1/status/peers"), ask("/v1/agent/self"));
    let servers = read::<Vec<String>>(&peers?)?.len();
    let forgetful = match myself {
        Ok(answer) => read::<Myself>(&answer)?.is_for_development(),
        // A token need not be able to ask that.
        Err(fault) if fault.is_denied() => false,
        Err(fault) => return Err(fault),
    };
    Ok(Topology { servers, forgetful })
}

impl Drop for Side {
    fn drop(&mut self) {
        // The session ends with the last side of its client. When that is the keeper, as it is when a client is
        // dropped, whoever waits for the keeper may end the process, and Consul should know by then.
        if self.keeper && Arc::strong_count(&self.session) == 1 {
            self.session.end();
        }
    }
}

/// How long a request about a claim of this lease may take: an answer that comes when it is over is worth nothing.
pub(crate) fn patience_for(ttl: Duration) -> Duration {
    (ttl * 3 / 4).clamp(IMPATIENCE, PATIENCE)
}

/// What makes no sense, and what Consul cannot do.
pub(crate) fn check(claim: &Claim) -> Result<()> {
    let refused = |kind, what: String, help: &str| Err(Error::new(kind, what).help(help).engine(ENGINE));
    if claim.weight == 0 || claim.weight > claim.capacity {
        let what = format!("a weight of {} never fits into a capacity of {}", claim.weight, claim.capacity);
        return refused(Kind::Invalid, what, "ask for at least one permit, and for no more than there are");
    }
    if claim.lingers {
        return refused(Kind::Unsupported, "Consul has no claims that outlive their session".into(), "leave it out");
    }
    if claim.priority != 0 {
        return refused(Kind::Unsupported, "Consul has no priorities".into(), "leave it out");
    }
    Ok(())
}
