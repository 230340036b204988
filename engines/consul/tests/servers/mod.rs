//! Consul servers of the tests' own.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use lockhouse_consul::Consul;
use lockhouse_testkit::{Program, bound, free_port, given};
use rustix::process::Signal;
use tempfile::TempDir;

/// The longest that a server is waited for.
const STARTING: Duration = Duration::from_secs(30);
/// The session that most tests ask for: as short as the case allows that is cut for one lease.
pub(crate) const SESSION: Duration = Duration::from_secs(6);

/// One server, which is an agent too.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) port: u16,
    pub(crate) program: Program,
}

/// Some servers that agree among themselves.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    _folder: TempDir,
}

/// Consul's own program: the one in the path, or the one that `cargo xtask engines install consul` fetched.
pub(crate) fn consul() -> &'static str {
    static CONSUL: LazyLock<String> = LazyLock::new(|| {
        let works = |program: &&str| Command::new(program).arg("version").output().is_ok();
        let fetched = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/consul/usr/bin/consul");
        let found = ["consul", fetched].into_iter().find(works);
        found.expect("Consul is there after `cargo xtask engines install consul`").to_owned()
    });
    &CONSUL
}

/// The address of the single server that most tests share: that in `LOCKHOUSE_TEST_CONSUL` if it is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> =
        LazyLock::new(|| given("LOCKHOUSE_TEST_CONSUL").unwrap_or_else(|| Cluster::start(1).keep()));
    SHARED.clone()
}

impl Cluster {
    /// Starts so many servers on free ports, and waits until they answer.
    pub(crate) fn start(members: usize) -> Self {
        Self::start_with(members, &[])
    }

    /// The same with these settings on top.
    pub(crate) fn start_with(members: usize, settings: &[String]) -> Self {
        let folder = folder();
        let ports: Vec<[u16; 3]> = (0..members).map(|_| [free_port(), free_port(), free_port()]).collect();
        let joins = ports.iter().map(|[.., serf]| format!("-retry-join=127.0.0.1:{serf}"));
        let joins: Vec<String> = joins.filter(|_| members > 1).collect();
        let start = |(at, ports): (usize, &[u16; 3])| {
            let data = folder.path().join(format!("c{at}"));
            let mut arguments = arguments(at, *ports, members, data.to_str().unwrap());
            arguments.extend(joins.iter().chain(settings).cloned());
            let launch = move || {
                let mut command = bound(consul());
                command.args(&arguments);
                command
            };
            Member { port: ports[0], program: Program::start(launch) }
        };
        let cluster = Self { members: ports.iter().enumerate().map(start).collect(), _folder: folder };
        cluster.until_all_answer();
        cluster
    }

    pub(crate) fn address(&self) -> String {
        let hosts: Vec<String> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("//{}", hosts.join(","))
    }

    /// Lets it live as long as the test process.
    pub(crate) fn keep(self) -> String {
        let address = self.address();
        std::mem::forget(self);
        address
    }

    /// The member that leads, as the members that run see it.
    pub(crate) fn leader(&self) -> usize {
        for _ in 0..400 {
            // Each says of itself whether it leads.
            let leads = |member: &Member| {
                let said = http(member.port, "GET", "/v1/agent/self?stale", "");
                said.is_some_and(|(_, body)| body.contains("\"leader\":\"true\""))
            };
            if let Some(at) = self.members.iter().position(|member| member.program.is_up() && leads(member)) {
                return at;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("there is no leader");
    }

    /// Starts what was stopped, lets go on what stands still, and waits until all answer.
    pub(crate) fn restore(&self) {
        for member in &self.members {
            if member.program.is_up() {
                member.program.signal(Signal::CONT);
            } else {
                member.program.restart();
            }
        }
        self.until_all_answer();
    }

    fn until_all_answer(&self) {
        let up = |member: &Member| member.program.answers(STARTING, || member.is_ready());
        assert!(self.members.iter().all(up), "not all servers answer");
    }
}

/// A folder for servers: in memory where that is possible, since three servers on one disk wait for it most of the
/// time. What a process before this one could not clear away is cleared away.
fn folder() -> TempDir {
    const MEMORY: &str = "/dev/shm";
    const OURS: &str = "lockhouse-consul-";
    for left in std::fs::read_dir(MEMORY).into_iter().flatten().flatten() {
        let name = left.file_name().into_string().unwrap_or_default();
        let process = name.strip_prefix(OURS).and_then(|rest| rest.split_once('-')).map(|(process, _)| process);
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another process may be at it as well.
            let _ = std::fs::remove_dir_all(left.path());
        }
    }
    let prefix = format!("{OURS}{}-", std::process::id());
    let folder = TempDir::with_prefix_in(&prefix, MEMORY);
    folder.or_else(|_| TempDir::with_prefix_in(&prefix, env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

impl Member {
    /// Whether sessions can be made at its place: there is a leader, and it knows this node.
    fn is_ready(&self) -> bool {
        // With TLS or tokens alone nothing can be asked here: whoever connects tries for some seconds.
        let Some((status, _)) = http(self.port, "GET", "/v1/status/leader", "") else { return false };
        if status == 400 {
            return true;
        }
        let session = r#"{"TTL":"1s","LockDelay":"0s","NodeChecks":[],"Checks":[]}"#;
        let made = http(self.port, "PUT", "/v1/session/create", session);
        made.is_some_and(|(status, _)| matches!(status, 200 | 403))
    }
}

fn arguments(at: usize, [http, server, serf]: [u16; 3], members: usize, data: &str) -> Vec<String> {
    let options = [
        "agent".to_owned(),
        "-server".to_owned(),
        format!("-bootstrap-expect={members}"),
        format!("-node=c{at}"),
        format!("-data-dir={data}"),
        "-bind=127.0.0.1".to_owned(),
        "-client=127.0.0.1".to_owned(),
        format!("-http-port={http}"),
        format!("-server-port={server}"),
        format!("-serf-lan-port={serf}"),
        "-serf-wan-port=-1".to_owned(),
        "-grpc-port=-1".to_owned(),
        "-dns-port=-1".to_owned(),
        "-retry-interval=1s".to_owned(),
        "-hcl=connect { enabled = false }".to_owned(),
        "-hcl=disable_update_check = true".to_owned(),
        "-hcl=session_ttl_min = \"1s\"".to_owned(),
        "-hcl=performance { raft_multiplier = 1 }".to_owned(),
        // All clients of the suite are on one machine.
        "-hcl=limits { http_max_conns_per_client = 10000 }".to_owned(),
    ];
    options.to_vec()
}

/// Asks an agent: the status and the body of its answer.
pub(crate) fn http(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    http_with(port, method, path, body, "")
}

/// The same with another header.
pub(crate) fn http_with(port: u16, method: &str, path: &str, body: &str, header: &str) -> Option<(u16, String)> {
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: h\r\n{header}Content-Length: {length}\r\n\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// The port in an address of one agent.
pub(crate) fn port(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("an address with a port")
}

/// A connector with the session that most tests ask for.
pub(crate) fn connector(address: &str, prefix: &str) -> Consul {
    Consul::at(address).unwrap().session(SESSION).unwrap().prefix(prefix).unwrap()
}

/// A prefix that no other test uses.
pub(crate) fn prefix() -> String {
    format!("test-{:08x}/", rand::random::<u32>())
}

/// Every key under a prefix.
pub(crate) fn left_over(address: &str, prefix: &str) -> Vec<String> {
    let (status, body) = http(port(address), "GET", &format!("/v1/kv/{prefix}?keys"), "").expect("an answer");
    if status == 404 { Vec::new() } else { serde_json::from_str(&body).unwrap() }
}
