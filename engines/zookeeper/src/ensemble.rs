//! One side of a client at its servers.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Claim, Error, Kind};
use zookeeper_client::{Acls, CreateMode, CreateOptions, Error as Said};

use crate::address::Address;
use crate::error::{Fault, explain};
use crate::paths::{Paths, ancestry};
use crate::session::{Open, Session};

/// A request that is about no lease is given up after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// The shortest time a request is given.
const IMPATIENCE: Duration = Duration::from_millis(50);

/// One side of a client at its servers.
#[derive(Debug)]
pub(crate) struct Ensemble {
    pub(crate) session: Arc<Session>,
    pub(crate) paths: Paths,
    pub(crate) address: Address,
    /// This is the keeper's side, where somebody can wait for the session's end.
    keeper: bool,
}

impl Ensemble {
    pub(crate) fn new(session: Arc<Session>, paths: Paths, address: Address, keeper: bool) -> Self {
        Self { session, paths, address, keeper }
    }

    pub(crate) fn explain(&self, fault: Fault) -> Error {
        explain(fault, &self.address.cluster())
    }

    /// Asks something of a session that has a connection. Half of the limit is for finding one: what was never sent is
    /// certainly not carried out.
    pub(crate) async fn ask<T>(
        &self,
        limit: Duration,
        request: impl AsyncFnOnce(&Open) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let answer = match self.session.connected(limit / 2).await {
            Ok(open) => tokio::time::timeout(limit, request(&open)).await.unwrap_or(Err(Fault::Silence(limit))),
            Err(fault) => Err(fault),
        };
        answer.map_err(|fault| self.explain(fault))
    }

    /// How a claim's node is made.
    pub(crate) fn claims(&self) -> CreateOptions<'static> {
        CreateMode::EphemeralSequential.with_acls(self.acls())
    }

    /// Who may do what with our nodes: those who sign in as we do or, when we do not, everybody.
    pub(crate) fn acls(&self) -> Acls<'static> {
        if self.address.credentials.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }

    /// Makes a node and those above it, in one go: requests of a session are carried out in their order.
    ///
    /// Containers are cleared away by the servers when nobody is in them any more, which can be in the middle of this.
    /// Then it is done again: a container in which nobody was yet stays, so that each level can be missing once. What
    /// is in a cell stays.
    pub(crate) async fn make(&self, open: &Open, path: &str, mode: CreateMode) -> Result<(), Fault> {
        for _ in ancestry(path) {
            match self.make_all(open, path, mode).await {
                Err(Said::NoNode) => {}
                made => return Ok(made?),
            }
        }
        Err(Said::NoNode.into())
    }

    async fn make_all(&self, open: &Open, path: &str, mode: CreateMode) -> Result<(), Said> {
        let options = mode.with_acls(self.acls());
        let made: Vec<_> = ancestry(path).map(|path| open.client.create(path, b"", &options)).collect();
        let mut denied = false;
        for made in made {
            match made.await {
                Ok(_) | Err(Said::NodeExists) => denied = false,
                // A node above ours may be one that we are not permitted to make, and there all the same.
                Err(Said::NoAuth) => denied = true,
                Err(Said::NoNode) if denied => return Err(Said::NoAuth),
                Err(said) => return Err(said),
            }
        }
        Ok(())
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        // The session ends with the last side of its client. When that is the keeper, as it is when a client is
        // dropped, whoever waits for the keeper may end the process, and the servers should know by then.
        if self.keeper && Arc::strong_count(&self.session) == 1 {
            self.session.close();
        }
    }
}

/// How long a request about a lease may take: an answer that comes when it is over is worth nothing. There is no sooner
/// asking again, since requests of a session are carried out in their order.
pub(crate) fn patience_for(lease: Duration) -> Duration {
    (lease * 2 / 3).clamp(IMPATIENCE, PATIENCE)
}

/// What ZooKeeper cannot do.
pub(crate) fn check(claim: &Claim) -> Result<(), Error> {
    let missing = if claim.lingers {
        "claims that outlive their session"
    } else if claim.priority != 0 {
        "priorities"
    } else {
        return Ok(());
    };
    Err(Error::new(Kind::Unsupported, format!("ZooKeeper has no {missing}")).help("use an engine that does"))
}
