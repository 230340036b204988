//! A master, two replicas, and three sentinels that watch them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::SocketAddr;
use std::time::Duration;

use lockhouse_testkit::{Program, bound, free_port};
use tempfile::TempDir;

use crate::servers::{Server, info, plain, until};

/// A master, two replicas, and three sentinels.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The master comes first, at the beginning.
    pub(crate) servers: [Server; 3],
    pub(crate) sentinels: Vec<Sentinel>,
}

/// Replication begins at once, and needs no file.
const REPLICATES: [&str; 6] =
    ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-diskless-load", "swapdb"];

impl Watched {
    pub(crate) fn start() -> Self {
        let master = Server::start(&REPLICATES);
        let port = master.port.to_string();
        let replica = || {
            let replicates = [&REPLICATES[..], &["--replicaof", "127.0.0.1", &port]].concat();
            Server::start_anew(&replicates, &[])
        };
        let servers = [master, replica(), replica()];
        let watched = Self { sentinels: Vec::new(), servers };
        // Sentinels look for replicas when they start, and then rarely.
        watched.until_replicated();
        let sentinels: Vec<Sentinel> = (0..3).map(|_| Sentinel::start(watched.servers[0].port)).collect();
        for sentinel in &sentinels {
            until("the sentinels know each other and the replicas", || sentinel.knows_all());
        }
        Self { sentinels, ..watched }
    }

    fn until_replicated(&self) {
        let master = self.servers[0].address();
        let online = |replica: &str| info(&master, "replication", replica).is_some_and(|it| it.contains("online"));
        until("both replicas are in step", || online("slave0") && online("slave1"));
    }

    /// Where a client finds the master.
    pub(crate) fn address(&self) -> String {
        let sentinels: Vec<String> = self.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port)).collect();
        format!("//{}/mymaster", sentinels.join(","))
    }

    /// Starts servers again that were killed, as they were at the beginning.
    pub(crate) fn restart(&self) {
        self.servers.iter().for_each(Server::restart);
        self.until_replicated();
    }

    /// The server that the sentinels name, once it is a master.
    pub(crate) fn master(&self) -> Option<&Server> {
        // They hear of a fail-over one after the other, and a client may ask any of them.
        let port = self.sentinels[0].names()?;
        let agreed = self.sentinels.iter().all(|sentinel| sentinel.names() == Some(port));
        let named = self.servers.iter().find(|server| server.port == port)?;
        info(&named.address(), "replication", "role").filter(|role| agreed && role == "master").map(|_| named)
    }

    /// Cuts the master off from replicas and sentinels: it replicates no more and cannot be made a replica. Clients
    /// notice nothing.
    pub(crate) fn cut_off_master(&self) {
        let master = &self.servers[0];
        master.tell("ACL SETUSER default -psync -sync -replconf -replicaof -slaveof");
        master.tell("CLIENT KILL TYPE replica");
        until("the replicas are gone", || {
            info(&master.address(), "replication", "connected_slaves").as_deref() == Some("0")
        });
    }

    /// Has a sentinel make another server the master.
    ///
    /// It gives up what takes too long, as on a busy machine: then it is asked again. While it is at it, it refuses.
    pub(crate) fn fail_over(&self) {
        let (first, sentinel) = (self.servers[0].port, &self.sentinels[0]);
        until("another server is promoted", || {
            let mut connection = plain(&sentinel.address()).get_connection().unwrap();
            let _ = redis::cmd("SENTINEL").arg(&["FAILOVER", "mymaster"]).exec(&mut connection);
            std::thread::sleep(Duration::from_millis(100));
            sentinel.names() != Some(first)
        });
        self.until_failed_over();
    }

    /// Waits until another server is the master.
    pub(crate) fn until_failed_over(&self) {
        let first = self.servers[0].port;
        until("another server is the master", || self.master().is_some_and(|master| master.port != first));
    }
}

/// One sentinel.
#[derive(Debug)]
pub(crate) struct Sentinel {
    port: u16,
    _program: Program,
    _folder: TempDir,
}

impl Sentinel {
    /// Starts one that watches this master.
    pub(crate) fn start(master: u16) -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let config = folder.path().join("sentinel.conf");
        let lines = [
            format!("port {port}"),
            "bind 127.0.0.1".into(),
            format!("dir {}", folder.path().display()),
            format!("sentinel monitor mymaster 127.0.0.1 {master} 2"),
            "sentinel down-after-milliseconds mymaster 1000".into(),
            "sentinel failover-timeout mymaster 5000".into(),
        ];
        std::fs::write(&config, lines.join("\n")).unwrap();
        let program = Program::start(move || {
            let mut command = bound("redis-server");
            command.arg(&config).arg("--sentinel");
            command
        });
        Self { port, _program: program, _folder: folder }
    }

    fn address(&self) -> String {
        format!("//127.0.0.1:{}", self.port)
    }

    fn knows_all(&self) -> bool {
        let known = info(&self.address(), "sentinel", "master0").unwrap_or_default();
        known.contains("status=ok") && known.contains("slaves=2") && known.contains("sentinels=3")
    }

    /// Where it can be asked.
    pub(crate) fn socket(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The port of the master that it names; nothing while it does not answer.
    pub(crate) fn names(&self) -> Option<u16> {
        let mut connection = plain(&self.address()).get_connection_with_timeout(Duration::from_secs(1)).ok()?;
        let mut command = redis::cmd("SENTINEL");
        let named: (String, u16) = command.arg(&["get-master-addr-by-name", "mymaster"]).query(&mut connection).ok()?;
        Some(named.1)
    }
}
