//! The suite on a cluster of three masters, and what happens when a slot moves.

mod servers;
#[path = "../src/slot.rs"]
mod slot;

use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockhouse_core::{Connector, Guarantees, Happened, Kind, Locks, Name};
use lockhouse_redis::Cluster;
use lockhouse_testkit::{OwnServer, Saboteur, Server, Shared, Subject, async_trait};
use redis::Value;
use rustix::process::Signal;
use servers::{info, plain, tell, tell_words, until};
use tempfile::TempDir;

/// Three masters.
#[derive(Debug)]
struct Masters {
    servers: Vec<servers::Server>,
    _folder: TempDir,
}

impl Masters {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = |number| {
            let config = format!("{number}.conf");
            let folder = folder.path().to_str().unwrap();
            let options = ["--dir", folder, "--cluster-enabled", "yes", "--cluster-config-file", &config];
            let timeout = ["--cluster-node-timeout", "2000"];
            servers::Server::start_anew(&[&options[..], &timeout].concat(), &[])
        };
        let masters = Self { servers: (0..3).map(server).collect(), _folder: folder };
        let mut command = Command::new("redis-cli");
        command.args(["--cluster", "create"]).args(masters.servers.iter().map(|it| format!("127.0.0.1:{}", it.port)));
        let made = command.args(["--cluster-replicas", "0", "--cluster-yes"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        masters.until_well();
        masters.settle();
        masters
    }

    fn until_well(&self) {
        for server in &self.servers {
            let well = || tell_text(&server.address(), "CLUSTER INFO").contains("cluster_state:ok");
            until("the cluster is well", well);
        }
    }

    /// Lets the servers give locks away at once: there was nobody before them who could have.
    fn settle(&self) {
        for server in &self.servers {
            let run_id = info(&server.address(), "server", "run_id").unwrap();
            let mut connection = plain(&server.address()).get_connection().unwrap();
            let mut counters = redis::pipe();
            for slot in (0..16384).filter(|slot| self.master_of(*slot).port == server.port) {
                let counter = format!("{{{}}}\ttokens\tlockhouse:", slot::tag(slot));
                counters.cmd("SET").arg(counter).arg(format!("0 {run_id} 0")).ignore();
            }
            counters.exec(&mut connection).unwrap();
        }
    }

    /// As the servers divide the slots when the cluster is made.
    fn master_of(&self, slot: u16) -> &servers::Server {
        &self.servers[match slot {
            0..=5460 => 0,
            5461..=10922 => 1,
            _ => 2,
        }]
    }

    fn address(&self) -> String {
        let places: Vec<String> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        format!("//{}", places.join(","))
    }
}

fn tell_text(address: &str, command: &str) -> String {
    redis::from_redis_value(tell(address, command)).unwrap()
}

#[derive(Debug, Clone)]
struct Group(Arc<Masters>);

impl Group {
    /// The same for every case.
    fn shared() -> Self {
        static SHARED: LazyLock<Group> = LazyLock::new(|| Group(Arc::new(Masters::start())));
        SHARED.clone()
    }
}

#[async_trait]
impl Subject for Group {
    fn guarantees(&self) -> Guarantees {
        Cluster::guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(Cluster::at(&self.0.address()).unwrap())
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
        let group = Group(Arc::new(Masters::start()));
        Some(OwnServer { subject: Arc::new(group.clone()), server: Arc::new(group), members: None })
    }
}

#[async_trait]
impl Saboteur for Group {
    async fn remove(&self, name: &Name) {
        let holder = format!("lockhouse:{name}");
        let others = ["claims", "waiters", "leases"].map(|key| format!("{{{holder}}}\t{key}"));
        let master = self.0.master_of(slot::slot(&holder)).address();
        tell_words(&master, &["DEL", &holder, &others[0], &others[1], &others[2]]);
    }
}

#[async_trait]
impl Server for Group {
    async fn stop(&self) {
        self.0.servers.iter().for_each(servers::Server::kill);
    }

    async fn start(&self) {
        self.0.servers.iter().for_each(servers::Server::restart);
        self.0.until_well();
    }

    async fn pause(&self) {
        self.0.servers.iter().for_each(|server| server.signal(Signal::STOP));
    }

    async fn resume(&self) {
        self.0.servers.iter().for_each(|server| server.signal(Signal::CONT));
    }
}

async fn connect(url: String) -> Locks {
    Locks::new(Shared(Arc::new(Cluster::at(&url).unwrap()))).await.unwrap()
}

lockhouse_testkit::conformance!(Group::shared(), taker: connect);

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_takes_its_locks_along() {
    let masters = Masters::start();
    let locks = Locks::new(Cluster::at(&masters.address()).unwrap()).await.unwrap();
    let mutex = |name: &str| locks.mutex(name).ttl(Duration::from_secs(5)).wait(Duration::from_secs(30));
    let held = mutex("x").lock().await.unwrap();
    let slot = slot::slot("lockhouse:x");
    let from = masters.master_of(slot);
    let to = masters.servers.iter().find(|server| server.port != from.port).unwrap();
    let (from_id, to_id) = (tell_text(&from.address(), "CLUSTER MYID"), tell_text(&to.address(), "CLUSTER MYID"));

    tell(&to.address(), &format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
    tell(&from.address(), &format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
    let keys = tell(&from.address(), &format!("CLUSTER GETKEYSINSLOT {slot} 100"));
    for key in redis::from_redis_value::<Vec<String>>(keys).unwrap() {
        let port = to.port.to_string();
        let moved = tell_words(&from.address(), &["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
        assert_eq!(moved, Value::Okay);
    }
    let error = mutex("x").try_lock().await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_happened()), (Kind::Unreachable, Happened::No), "{error}");

    for server in [to, from] {
        tell(&server.address(), &format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
    }
    assert!(mutex("x").try_lock().await.unwrap().is_none(), "it is known there who holds it");
    held.check().unwrap();
    held.release().await.unwrap();
    mutex("x").lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_single_server_is_no_cluster_and_the_other_way_round() {
    let alone = servers::Server::start(&[]);
    let error = Locks::new(Cluster::at(&alone.address()).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("no part of a cluster"), "{error}");
}
