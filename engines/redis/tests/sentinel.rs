//! The suite on a master that sentinels watch, with two replicas.

mod servers;
mod watched;

use std::sync::{Arc, LazyLock};

use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_redis::Redis;
use lockhouse_testkit::{OwnServer, Saboteur, Server, Shared, Subject, async_trait};
use rustix::process::Signal;
use servers::tell_words;
use watched::Watched;

#[derive(Debug, Clone)]
struct Group(Arc<Watched>);

impl Group {
    /// The same for every case.
    fn shared() -> Self {
        static SHARED: LazyLock<Group> = LazyLock::new(|| Group(Arc::new(Watched::start())));
        SHARED.clone()
    }
}

#[async_trait]
impl Subject for Group {
    fn guarantees(&self) -> Guarantees {
        Redis::guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(Redis::sentinel(&self.0.address()).unwrap().replicas(1))
    }

    fn pace(&self) -> u32 {
        20
    }

    fn url(&self) -> Option<String> {
        Some(self.0.address())
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }

    fn has_server(&self) -> bool {
        true
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let group = Group(Arc::new(Watched::start()));
        Some(OwnServer { subject: Arc::new(group.clone()), server: Arc::new(group), members: None })
    }
}

#[async_trait]
impl Saboteur for Group {
    async fn remove(&self, name: &Name) {
        let holder = format!("lockhouse:{name}");
        let others = ["claims", "waiters", "leases"].map(|key| format!("{{{holder}}}\t{key}"));
        let master = self.0.servers[0].address();
        tell_words(&master, &["DEL", &holder, &others[0], &others[1], &others[2]]);
    }
}

/// All servers at once: nobody is left to take over.
#[async_trait]
impl Server for Group {
    async fn stop(&self) {
        self.0.servers.iter().for_each(servers::Server::kill);
    }

    async fn start(&self) {
        self.0.restart();
    }

    async fn pause(&self) {
        self.0.servers.iter().for_each(|server| server.signal(Signal::STOP));
    }

    async fn resume(&self) {
        self.0.servers.iter().for_each(|server| server.signal(Signal::CONT));
    }
}

async fn connect(url: String) -> Locks {
    Locks::new(Shared(Arc::new(Redis::sentinel(&url).unwrap()))).await.unwrap()
}

lockhouse_testkit::conformance!(Group::shared(), taker: connect);
