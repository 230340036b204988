//! etcd under test: one member or three.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_etcd::Etcd;
use lockhouse_testkit::{Members, OwnServer, Proxy, Saboteur, Server, Shared, Subject, Wire, async_trait};
use rustix::process::Signal;

use crate::servers::{Cluster, etcdctl, given, shared};

/// Some members at some address.
#[derive(Debug)]
pub(crate) struct Deployment {
    address: String,
    members: usize,
}

impl Deployment {
    /// The single member that all cases share.
    pub(crate) fn single() -> Self {
        Self { address: shared(), members: 1 }
    }

    /// The three members that all cases share.
    pub(crate) fn ensemble() -> Self {
        static THREE: LazyLock<String> = LazyLock::new(|| Cluster::start(3).keep());
        Self { address: THREE.clone(), members: 3 }
    }

    fn is_given(&self) -> bool {
        self.members == 1 && given().is_some()
    }
}

#[async_trait]
impl Subject for Deployment {
    fn guarantees(&self) -> Guarantees {
        Etcd::guarantees(self.members)
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(Etcd::at(&self.address).unwrap())
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn pace(&self) -> u32 {
        20
    }

    fn url(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }

    async fn cuttable(&self) -> (Locks, Arc<dyn Wire>) {
        let first = self.address.trim_start_matches('/').split(',').next().unwrap_or_default();
        let proxy = Proxy::before(first.parse().expect("an address with a port"));
        let locks = Locks::new(Etcd::at(&format!("//{}", proxy.address())).unwrap()).await.unwrap();
        (locks, Arc::new(proxy))
    }

    fn has_server(&self) -> bool {
        !self.is_given()
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let members = self.members;
        let cluster = blocking(move || Arc::new(Cluster::start(members))).await;
        let subject = Arc::new(Deployment { address: cluster.address(), members });
        let own = Arc::new(Own(cluster));
        let members: Option<Arc<dyn Members>> = (members > 1).then(|| own.clone() as _);
        Some(OwnServer { subject, server: own, members })
    }

    fn has_members(&self) -> bool {
        self.members > 1
    }

    fn borrowed(&self) -> Option<&'static str> {
        self.is_given().then_some("a server was given to the tests")
    }
}

#[async_trait]
impl Saboteur for Deployment {
    async fn remove(&self, name: &Name) {
        let (address, line) = (self.address.clone(), format!("lockhouse/{name}/"));
        let removed = blocking(move || etcdctl(&address, &["del", "--prefix", &line])).await;
        assert!(removed.status.success(), "{removed:?}");
    }
}

/// Members that may be stopped.
#[derive(Debug)]
struct Own(Arc<Cluster>);

#[async_trait]
impl Server for Own {
    async fn stop(&self) {
        self.0.members.iter().for_each(|member| member.program.kill());
    }

    async fn start(&self) {
        let cluster = Arc::clone(&self.0);
        blocking(move || cluster.restore()).await;
    }

    async fn pause(&self) {
        self.0.members.iter().for_each(|member| member.program.signal(Signal::STOP));
    }

    async fn resume(&self) {
        self.0.members.iter().for_each(|member| member.program.signal(Signal::CONT));
    }
}

#[async_trait]
impl Members for Own {
    async fn stop_leader(&self) {
        let cluster = Arc::clone(&self.0);
        blocking(move || cluster.members[cluster.leader()].program.kill()).await;
    }

    async fn pause_leader(&self) {
        let cluster = Arc::clone(&self.0);
        blocking(move || cluster.members[cluster.leader()].program.signal(Signal::STOP)).await;
    }

    async fn stop_majority(&self) {
        let cluster = Arc::clone(&self.0);
        blocking(move || {
            let leader = cluster.leader();
            cluster.members[leader].program.kill();
            cluster.members[(leader + 1) % cluster.members.len()].program.kill();
        })
        .await;
    }

    async fn restore(&self) {
        let cluster = Arc::clone(&self.0);
        blocking(move || cluster.restore()).await;
    }
}

/// Runs what waits for processes where it may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// What a separate process connects with.
pub(crate) async fn connect(url: String) -> Locks {
    Locks::new(Shared(Arc::new(Etcd::at(&url).unwrap()))).await.unwrap()
}
