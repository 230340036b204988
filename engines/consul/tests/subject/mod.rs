//! Consul under test: one server or three.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockhouse_consul::Consul;
use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_testkit::{Members, OwnServer, Proxy, Saboteur, Server, Subject, Wire, async_trait, given};
use rustix::process::Signal;

use crate::servers::{Cluster, SESSION, http, port, shared};

/// The session where servers are stopped: its leases are longer than an election.
const LONG_SESSION: Duration = Duration::from_secs(15);

/// Some servers at some address.
#[derive(Debug)]
pub(crate) struct Deployment {
    address: String,
    session: Duration,
    members: usize,
}

impl Deployment {
    /// The single server that all cases share.
    #[allow(dead_code, reason = "each test file uses one of them")]
    pub(crate) fn single() -> Self {
        Self { address: shared(), session: SESSION, members: 1 }
    }

    /// The three servers that all cases share.
    #[allow(dead_code, reason = "each test file uses one of them")]
    pub(crate) fn ensemble() -> Self {
        static THREE: LazyLock<String> = LazyLock::new(|| Cluster::start(3).keep());
        Self { address: THREE.clone(), session: SESSION, members: 3 }
    }

    fn is_given(&self) -> bool {
        self.members == 1 && given("LOCKHOUSE_TEST_CONSUL").is_some()
    }

    fn consul(&self, address: &str) -> Consul {
        Consul::at(address).unwrap().session(self.session).unwrap()
    }

    fn first(&self) -> &str {
        self.address.trim_start_matches('/').split(',').next().unwrap_or_default()
    }
}

#[async_trait]
impl Subject for Deployment {
    fn guarantees(&self) -> Guarantees {
        self.consul(&self.address).guarantees(self.members)
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.consul(&self.address))
    }

    // Three members on one busy machine take their time to agree.
    fn ttl(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn pace(&self) -> u32 {
        20
    }

    fn url(&self) -> Option<String> {
        Some(format!("{} {}", self.address, self.session.as_millis()))
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }

    async fn cuttable(&self) -> (Locks, Arc<dyn Wire>) {
        let proxy = Proxy::before(self.first().parse().expect("an address with a port"));
        let locks = Locks::new(self.consul(&format!("//{}", proxy.address()))).await.unwrap();
        (locks, Arc::new(proxy))
    }

    fn has_server(&self) -> bool {
        !self.is_given()
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let members = self.members;
        let cluster = blocking(move || Arc::new(Cluster::start(members))).await;
        let subject = Arc::new(Deployment { address: cluster.address(), session: LONG_SESSION, members });
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
        let (port, line) = (port(self.first()), format!("/v1/kv/lockhouse/{name}/?recurse"));
        let removed = blocking(move || http(port, "DELETE", &line, "")).await;
        assert_eq!(removed.expect("an answer").0, 200);
    }
}

/// Servers that may be stopped.
#[derive(Debug)]
struct Own(Arc<Cluster>);

impl Own {
    async fn with(&self, act: impl FnOnce(&Cluster) + Send + 'static) {
        let cluster = Arc::clone(&self.0);
        blocking(move || act(&cluster)).await;
    }
}

#[async_trait]
impl Server for Own {
    async fn stop(&self) {
        self.with(|cluster| cluster.members.iter().for_each(|member| member.program.kill())).await;
    }

    async fn start(&self) {
        self.with(Cluster::restore).await;
    }

    async fn pause(&self) {
        self.with(|cluster| cluster.members.iter().for_each(|member| member.program.signal(Signal::STOP))).await;
    }

    async fn resume(&self) {
        self.with(|cluster| cluster.members.iter().for_each(|member| member.program.signal(Signal::CONT))).await;
    }
}

#[async_trait]
impl Members for Own {
    async fn stop_leader(&self) {
        self.with(|cluster| cluster.members[cluster.leader()].program.kill()).await;
    }

    async fn pause_leader(&self) {
        self.with(|cluster| cluster.members[cluster.leader()].program.signal(Signal::STOP)).await;
    }

    async fn stop_majority(&self) {
        self.with(|cluster| {
            let leader = cluster.leader();
            cluster.members[leader].program.kill();
            cluster.members[(leader + 1) % cluster.members.len()].program.kill();
        })
        .await;
    }

    async fn restore(&self) {
        self.with(Cluster::restore).await;
    }
}

/// Runs what waits for processes where it may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// What a separate process is told, and how it connects: the address, and the session's milliseconds.
pub(crate) async fn connect(url: String) -> Locks {
    let (address, session) = url.split_once(' ').unwrap();
    let session = Duration::from_millis(session.parse().unwrap());
    Locks::new(Consul::at(address).unwrap().session(session).unwrap()).await.unwrap()
}
