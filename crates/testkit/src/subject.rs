//! One engine under test.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Guarantees, Locks, Name, Result, Side};

use crate::gate::Gate;
use crate::wire::Wire;

/// One engine under test: how to connect to it, what it promises, and what can be done to it.
#[async_trait]
pub trait Subject: Debug + Send + Sync + 'static {
    /// What the engine promises. The suite compares it with what a client of the engine says.
    fn guarantees(&self) -> Guarantees;

    /// Connects one more client, which shares no connection with any other.
    fn connector(&self) -> Arc<dyn Connector>;

    /// The lease that cases use: so long that a busy machine's slowness does not end it.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// How many times fewer repetitions the cases under load make: 1 for an engine of this process.
    fn pace(&self) -> u32 {
        1
    }

    /// What another process needs to find the same engine; `None` for an engine of one process.
    fn url(&self) -> Option<String> {
        None
    }

    /// Who can tamper with the store directly; `None` where nobody can.
    fn saboteur(&self) -> Option<&dyn Saboteur> {
        None
    }

    /// A client whose connection can be cut and mended. For a server: through a [`Proxy`](crate::Proxy). An engine
    /// without a connection is cut off by a [`Gate`].
    async fn cuttable(&self) -> (Locks, Arc<dyn Wire>) {
        let (gate, gated) = Gate::around(self.connector());
        let locks = Locks::new(gated).await.expect("the subject can be connected to through a gate");
        (locks, Arc::new(gate))
    }

    /// Whether [`own_server`](Self::own_server) gives something: known without starting it.
    fn has_server(&self) -> bool {
        false
    }

    /// The same engine on a server that no other case uses, so that it may be stopped.
    async fn own_server(&self) -> Option<OwnServer> {
        None
    }

    /// Whether what [`own_server`](Self::own_server) gives has several members: known without starting them.
    fn has_members(&self) -> bool {
        false
    }

    /// Why the suite cannot have a server of its own, such as "a server was given to the tests": promises that need one
    /// are then listed as not exercised instead of being complained about.
    fn borrowed(&self) -> Option<&'static str> {
        None
    }
}

/// Who can tamper with the store directly, as an administrator could.
#[async_trait]
pub trait Saboteur: Send + Sync {
    /// Deletes everything that the store keeps about the claims on a name, behind their owners' backs.
    async fn remove(&self, name: &Name);
}

/// A server that may be stopped. Dropping it ends it.
#[async_trait]
pub trait Server: Debug + Send + Sync {
    /// Stops the server without warning.
    async fn stop(&self);
    /// Starts it again where it was, and waits until it answers.
    async fn start(&self);
    /// Makes it stand still: it neither answers nor closes its connections.
    async fn pause(&self);
    /// Lets it go on.
    async fn resume(&self);
}

/// Several servers that agree among themselves.
#[async_trait]
pub trait Members: Debug + Send + Sync {
    /// Kills the leader; the others elect another.
    async fn stop_leader(&self);
    /// Makes the leader stand still.
    async fn pause_leader(&self);
    /// Stops as many as it takes for no majority to be left.
    async fn stop_majority(&self);
    /// Brings back whatever was stopped or paused, and waits until all answer.
    async fn restore(&self);
}

/// An engine on a server that no other case uses.
#[derive(Debug)]
pub struct OwnServer {
    /// The engine.
    pub subject: Arc<dyn Subject>,
    /// Its server; all members at once if there are several.
    pub server: Arc<dyn Server>,
    /// Its members, if there are several.
    pub members: Option<Arc<dyn Members>>,
}

/// A connector that many can use.
#[derive(Debug, Clone)]
pub struct Shared(pub Arc<dyn Connector>);

#[async_trait]
impl Connector for Shared {
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        self.0.connect(side).await
    }
}
