//! The engine as the suite sees it: on one server, or on an ensemble.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Connector, CrashFrees, Guarantees, Locks, Name, TokenSurvives};
use lockhouse_testkit::{Members, OwnServer, Proxy, Saboteur, Server, Subject, Wire, async_trait};
use lockhouse_zookeeper::ZooKeeper;
use rustix::process::Signal;

use super::{Servers, given};

/// The session that most cases have: longer than their leases, and as short as the case allows that is cut for one
/// lease.
const SESSION: Duration = Duration::from_secs(6);
/// The session where a server is stopped, and where an ensemble has to elect a leader: longer than that takes.
const LONG_SESSION: Duration = Duration::from_secs(10);
const ELECTION_SESSION: Duration = Duration::from_secs(20);

/// Some servers at some address.
#[derive(Debug)]
pub(crate) struct AtServers {
    pub(crate) address: String,
    session: Duration,
    /// How many there are.
    members: usize,
}

impl AtServers {
    pub(crate) fn new(address: String, members: usize) -> Self {
        Self { address, session: SESSION, members }
    }
}

pub(crate) fn connector(address: &str, session: Duration) -> ZooKeeper {
    ZooKeeper::at(&format!("{address}/lockhouse/tests")).unwrap().session(session).unwrap()
}

/// What another process is told, and how it connects: the address, and the session's milliseconds.
pub(crate) async fn connect(url: String) -> Locks {
    let (address, session) = url.split_once(' ').unwrap();
    Locks::new(connector(address, Duration::from_millis(session.parse().unwrap()))).await.unwrap()
}

#[async_trait]
impl Subject for AtServers {
    fn guarantees(&self) -> Guarantees {
        let crash_frees = CrashFrees::AfterLease(self.session * 3 / 2);
        let token = if self.members > 1 { TokenSurvives::Members } else { TokenSurvives::Crash };
        Guarantees { crash_frees, token, ..ZooKeeper::guarantees() }
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(connector(&self.address, self.session))
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
        let server = self.address.trim_start_matches('/').split(',').next().unwrap();
        let proxy = Proxy::before(server.parse().expect("an address with a port"));
        let locks = Locks::new(connector(&format!("//{}", proxy.address()), self.session)).await.unwrap();
        (locks, Arc::new(proxy))
    }

    fn has_server(&self) -> bool {
        given().is_none()
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let members = self.members;
        let servers = tokio::task::spawn_blocking(move || Servers::start(members)).await.unwrap();
        let session = if members > 1 { ELECTION_SESSION } else { LONG_SESSION };
        let subject = Arc::new(Self { address: servers.address(), session, members });
        let own = Arc::new(Own(Arc::new(servers)));
        let several = (members > 1).then(|| Arc::clone(&own) as Arc<dyn Members>);
        Some(OwnServer { subject, server: own, members: several })
    }

    fn has_members(&self) -> bool {
        self.members > 1
    }

    fn borrowed(&self) -> Option<&'static str> {
        given().map(|_| "a server was given to the tests")
    }
}

#[async_trait]
impl Saboteur for AtServers {
    async fn remove(&self, name: &Name) {
        let client = zookeeper_client::Client::connect(self.address.trim_start_matches('/')).await.unwrap();
        // The names of the cases have nothing that is written otherwise.
        let line = format!("/lockhouse/tests/{name}");
        for child in client.list_children(&line).await.unwrap_or_default() {
            let _ = client.delete(&format!("{line}/{child}"), None).await;
        }
    }
}

/// Servers that may be stopped.
#[derive(Debug)]
struct Own(Arc<Servers>);

impl Own {
    async fn with(&self, act: impl FnOnce(&Servers) + Send + 'static) {
        let servers = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || act(&servers)).await.unwrap();
    }
}

#[async_trait]
impl Server for Own {
    async fn stop(&self) {
        self.with(Servers::kill_all).await;
    }

    async fn start(&self) {
        self.with(Servers::restore).await;
    }

    async fn pause(&self) {
        self.with(|servers| servers.signal_all(Signal::STOP)).await;
    }

    async fn resume(&self) {
        self.with(|servers| servers.signal_all(Signal::CONT)).await;
    }
}

#[async_trait]
impl Members for Own {
    async fn stop_leader(&self) {
        self.with(Servers::kill_leader).await;
    }

    async fn pause_leader(&self) {
        self.with(Servers::pause_leader).await;
    }

    async fn stop_majority(&self) {
        self.with(Servers::kill_majority).await;
    }

    async fn restore(&self) {
        self.with(Servers::restore).await;
    }
}
