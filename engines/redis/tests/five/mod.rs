//! Five servers, of which a minority may be down.

use std::sync::{Arc, LazyLock};

use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_redis::Redlock;
use lockhouse_testkit::{Members, OwnServer, Saboteur, Server, Shared, Subject, async_trait};
use rustix::process::Signal;

use crate::servers;

/// How many of the five are killed, and how many hang.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Down {
    pub(crate) killed: usize,
    pub(crate) hanging: usize,
}

/// Five servers, shared by the cases of a test program.
#[derive(Debug)]
pub(crate) struct Five {
    addresses: Arc<[String]>,
    down: Down,
}

impl Five {
    /// The same five for every case.
    pub(crate) fn shared(down: Down) -> Self {
        static SHARED: LazyLock<Vec<servers::Server>> = LazyLock::new(|| start().into());
        static ARE_DOWN: std::sync::Once = std::sync::Once::new();
        ARE_DOWN.call_once(|| {
            SHARED[..down.killed].iter().for_each(servers::Server::kill);
            SHARED[down.killed..down.killed + down.hanging].iter().for_each(|server| server.signal(Signal::STOP));
        });
        Self { addresses: SHARED.iter().map(servers::Server::address).collect(), down }
    }

    fn url(&self) -> String {
        let hosts: Vec<&str> = self.addresses.iter().map(|address| address.trim_start_matches('/')).collect();
        format!("//{}", hosts.join(","))
    }

    fn redlock(&self) -> Redlock {
        Redlock::at(&self.url()).unwrap()
    }
}

fn start() -> [servers::Server; 5] {
    std::array::from_fn(|_| servers::Server::start(&[]))
}

pub(crate) async fn connect(url: String) -> Locks {
    Locks::new(Shared(Arc::new(Redlock::at(&url).unwrap()))).await.unwrap()
}

#[async_trait]
impl Subject for Five {
    fn guarantees(&self) -> Guarantees {
        self.redlock().guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.redlock())
    }

    // A member gets a tenth of it to answer, however busy the machine.
    fn ttl(&self) -> std::time::Duration {
        std::time::Duration::from_secs(5)
    }

    fn pace(&self) -> u32 {
        50
    }

    fn url(&self) -> Option<String> {
        Some(Five::url(self))
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }

    fn has_server(&self) -> bool {
        true
    }

    fn has_members(&self) -> bool {
        true
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let servers = Arc::new(Own(start()));
        let addresses = servers.0.iter().map(servers::Server::address).collect();
        let subject = Arc::new(Five { addresses, down: Down { killed: 0, hanging: 0 } });
        Some(OwnServer { subject, server: Arc::clone(&servers) as Arc<dyn Server>, members: Some(servers) })
    }
}

#[async_trait]
impl Saboteur for Five {
    async fn remove(&self, name: &Name) {
        let holder = format!("lockhouse:{name}");
        let others = ["claims", "waiters", "leases"].map(|key| format!("{{{holder}}}\t{key}"));
        for address in &self.addresses[self.down.killed + self.down.hanging..] {
            servers::tell_words(address, &["DEL", &holder, &others[0], &others[1], &others[2]]);
        }
    }
}

/// Five servers of one case's own.
#[derive(Debug)]
struct Own([servers::Server; 5]);

#[async_trait]
impl Server for Own {
    async fn stop(&self) {
        self.0.iter().for_each(servers::Server::kill);
    }

    async fn start(&self) {
        self.0.iter().for_each(servers::Server::restart);
    }

    async fn pause(&self) {
        self.0.iter().for_each(|server| server.signal(Signal::STOP));
    }

    async fn resume(&self) {
        self.0.iter().for_each(|server| server.signal(Signal::CONT));
    }
}

/// There is no leader: the largest minority stands for it.
#[async_trait]
impl Members for Own {
    async fn stop_leader(&self) {
        self.0[..2].iter().for_each(servers::Server::kill);
    }

    async fn pause_leader(&self) {
        self.0[..2].iter().for_each(|server| server.signal(Signal::STOP));
    }

    async fn stop_majority(&self) {
        self.0[..3].iter().for_each(servers::Server::kill);
    }

    async fn restore(&self) {
        for server in &self.0 {
            if server.is_down() {
                server.restart();
            } else {
                server.signal(Signal::CONT);
            }
        }
    }
}
