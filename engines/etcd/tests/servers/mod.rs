//! etcd servers of the tests' own, and clients of theirs.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, ClaimId, Connector, Engine, Name, Owner, Patience, Side};
use lockhouse_etcd::Etcd;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// One member. Ended when it is dropped, and at the latest when the test process ends.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) port: u16,
    arguments: Vec<String>,
    /// With TLS: what its certificate comes from.
    authority: Option<String>,
    child: Mutex<Child>,
}

/// A cluster, of which each member may be stopped.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    _folder: TempDir,
}

/// The address of the single member that most tests share: that in `LOCKHOUSE_TEST_ETCD` if it is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| Cluster::start(1).keep()));
    SHARED.clone()
}

/// The address of a cluster that was given to the tests.
#[expect(clippy::disallowed_methods, reason = "tests are told of a server by the environment")]
pub(crate) fn given() -> Option<String> {
    let url = std::env::var("LOCKHOUSE_TEST_ETCD").ok()?;
    Some(url.strip_prefix("etcd:").unwrap_or(&url).to_owned())
}

impl Cluster {
    /// Starts so many members on free ports, and waits until they answer.
    pub(crate) fn start(members: usize) -> Self {
        Self::start_with(members, None)
    }

    /// One member that is spoken to through TLS, with this key and certificate.
    pub(crate) fn start_secured(key: &str, certificate: &str) -> Self {
        Self::start_with(1, Some((key, certificate)))
    }

    fn start_with(members: usize, tls: Option<(&str, &str)>) -> Self {
        // Another program may be faster to take a port.
        for _ in 0..5 {
            let folder = TempDir::with_prefix_in("etcd-", env!("CARGO_TARGET_TMPDIR")).unwrap();
            let ports: Vec<(u16, u16)> = free_ports(members * 2).chunks(2).map(|pair| (pair[0], pair[1])).collect();
            let peers = ports.iter().enumerate().map(|(at, (_, peer))| format!("e{at}=http://127.0.0.1:{peer}"));
            let peers = peers.collect::<Vec<_>>().join(",");
            let start = |(at, (port, peer)): (usize, &(u16, u16))| {
                let data = folder.path().join(format!("e{at}"));
                let mut arguments = arguments(at, *port, *peer, &peers, data.to_str().unwrap());
                if let Some((key, certificate)) = tls {
                    let secured = arguments.iter().map(|argument| match argument.contains("-client-urls=") {
                        true => argument.replace("http:", "https:"),
                        false => argument.clone(),
                    });
                    arguments = secured.collect();
                    arguments.extend([format!("--key-file={key}"), format!("--cert-file={certificate}")]);
                }
                let authority = tls.map(|(_, certificate)| certificate.to_owned());
                Member { port: *port, child: Mutex::new(spawn(&arguments)), arguments, authority }
            };
            let cluster = Self { members: ports.iter().enumerate().map(start).collect(), _folder: folder };
            if cluster.members.iter().all(|member| member.answers(Duration::from_secs(20))) {
                return cluster;
            }
        }
        panic!("etcd cannot be started: see whether the package etcd-server is installed");
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

    /// The member that leads, as a member that runs sees it.
    pub(crate) fn leader(&self) -> usize {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            for (at, member) in self.members.iter().enumerate().filter(|(_, member)| member.is_up()) {
                // Answered by the member itself: "…, is leader, …".
                let status = etcdctl(&format!("//127.0.0.1:{}", member.port), &["endpoint", "status"]);
                let status = String::from_utf8_lossy(&status.stdout).into_owned();
                if status.split(", ").nth(4) == Some("true") {
                    return at;
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("there is no leader");
    }

    /// Starts what was stopped, lets go on what stands still, and waits until all answer.
    pub(crate) fn restore(&self) {
        for member in &self.members {
            if member.is_up() {
                member.signal(Signal::CONT);
            } else {
                member.launch();
            }
        }
        assert!(self.members.iter().all(|member| member.answers(Duration::from_secs(30))), "not all are back");
    }
}

impl Member {
    pub(crate) fn answers(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if !self.is_up() {
                return false;
            }
            let address = format!("//127.0.0.1:{}", self.port);
            let mut words = vec!["--command-timeout=1s", "get", "a"];
            words.extend(self.authority.iter().flat_map(|file| ["--cacert", file]));
            if etcdctl(&address, &words).status.success() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    pub(crate) fn is_up(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }

    /// Ends it without warning.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Starts it again where it was.
    pub(crate) fn launch(&self) {
        *self.child.lock().unwrap() = spawn(&self.arguments);
    }

    /// Makes it stand still, or go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap().id();
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn free_ports(number: usize) -> Vec<u16> {
    // All at once, so that they are different.
    let listeners: Vec<TcpListener> = (0..number).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn arguments(at: usize, port: u16, peer: u16, peers: &str, data: &str) -> Vec<String> {
    let (client, own) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let options = [
        ("name", format!("e{at}")),
        ("data-dir", data.to_owned()),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", own.clone()),
        ("initial-advertise-peer-urls", own),
        ("initial-cluster", peers.to_owned()),
        ("initial-cluster-state", "new".to_owned()),
        ("logger", "zap".to_owned()),
        ("log-outputs", format!("{data}.log")),
    ];
    options.into_iter().map(|(option, value)| format!("--{option}={value}")).collect()
}

fn spawn(arguments: &[String]) -> Child {
    let mut command = Command::new("setpriv");
    // The kernel ends the server when the thread that started it ends, which it does with the process alone.
    command.args(["--pdeathsig", "KILL", "etcd"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    start(command)
}

/// Starts a program on a thread that lives as long as this process.
pub(crate) fn start(command: Command) -> Child {
    type Order = (Command, Sender<Child>);
    static STARTER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
        let (sender, receiver) = channel::<Order>();
        std::thread::spawn(move || {
            while let Ok((mut command, answer)) = receiver.recv() {
                answer.send(command.spawn().expect("setpriv is there, as on every Debian")).unwrap();
            }
        });
        Mutex::new(sender)
    });
    let (sender, receiver) = channel();
    STARTER.lock().unwrap().send((command, sender)).unwrap();
    receiver.recv().unwrap()
}

/// etcd's own client.
pub(crate) fn etcdctl(address: &str, words: &[&str]) -> Output {
    ctl(address, words).output().expect("etcdctl is there: see whether the package etcd-client is installed")
}

/// The same, to be started.
pub(crate) fn ctl(address: &str, words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "etcdctl", "--endpoints", address.trim_start_matches('/')]).args(words);
    command.env("ETCDCTL_API", "3").stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Both sides of a client, without the client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) keeper: Arc<dyn Engine>,
    pub(crate) front: Arc<dyn Engine>,
}

pub(crate) async fn client(address: &str, prefix: &str) -> Client {
    let etcd = Etcd::at(address).unwrap().prefix(prefix).unwrap();
    Client { keeper: etcd.connect(Side::Keeper).await.unwrap(), front: etcd.connect(Side::Front).await.unwrap() }
}

/// A prefix that no other test uses.
pub(crate) fn prefix() -> String {
    format!("test-{:08x}/", rand::random::<u32>())
}

/// Every key under a prefix.
pub(crate) fn left_over(address: &str, prefix: &str) -> Vec<String> {
    let found = etcdctl(address, &["get", "--prefix", "--keys-only", prefix]);
    assert!(found.status.success());
    String::from_utf8_lossy(&found.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// A mutex's claim.
pub(crate) fn claim(name: &str) -> Claim {
    Claim {
        id: ClaimId::random(),
        name: Name::new(name).unwrap(),
        owner: Owner::new("tester"),
        weight: 1,
        capacity: 1,
        priority: 0,
        patience: Patience::Waits,
        ttl: Duration::from_secs(10),
        note: None,
        floor: 0,
        lingers: false,
    }
}
