//! etcd servers of the tests' own, and clients of theirs.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockhouse_etcd::Etcd;
use lockhouse_testkit::{Authority, Program, Sides, bound, free_port};
use tempfile::TempDir;

/// One member. Ended when it is dropped, and at the latest when the test process ends.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) port: u16,
    /// With TLS: what etcdctl must be told.
    access: Vec<String>,
    pub(crate) program: Program,
}

/// A cluster, of which each member may be stopped.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    _folder: TempDir,
}

/// How long members may take until they answer, on a busy machine.
const STARTING: Duration = Duration::from_secs(30);

/// The address of the single member that most tests share: that in `LOCKHOUSE_TEST_ETCD` if it is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| Cluster::start(1).keep()));
    SHARED.clone()
}

/// The address of a cluster that was given to the tests.
pub(crate) fn given() -> Option<String> {
    lockhouse_testkit::given("LOCKHOUSE_TEST_ETCD")
}

/// What a member is to be told beside its place in the cluster.
pub(crate) type Settings<'a> = &'a [(&'a str, &'a str)];

impl Cluster {
    /// Starts so many members on free ports, and waits until they answer.
    pub(crate) fn start(members: usize) -> Self {
        Self::start_with(members, None, &[])
    }

    /// One member that is spoken to through TLS, and with these settings.
    pub(crate) fn start_secured(authority: &Authority, settings: Settings<'_>) -> Self {
        let [key, certificate] = ["server.key", "server.crt"].map(|file| authority.path(file));
        let secured = [("key-file", key.as_str()), ("cert-file", certificate.as_str())];
        Self::start_with(1, Some(authority), &[&secured, settings].concat())
    }

    pub(crate) fn start_with(members: usize, authority: Option<&Authority>, settings: Settings<'_>) -> Self {
        let folder = TempDir::with_prefix_in("etcd-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let ports: Vec<(u16, u16)> = (0..members).map(|_| (free_port(), free_port())).collect();
        let peers = ports.iter().enumerate().map(|(at, (_, peer))| format!("e{at}=http://127.0.0.1:{peer}"));
        let peers = peers.collect::<Vec<_>>().join(",");
        let scheme = if authority.is_some() { "https" } else { "http" };
        let access = authority.map(access).unwrap_or_default();
        let start = |(at, (port, peer)): (usize, &(u16, u16))| {
            let data = folder.path().join(format!("e{at}"));
            let mut arguments =
                place(at, &format!("{scheme}://127.0.0.1:{port}"), *peer, &peers, data.to_str().unwrap());
            arguments.extend(settings.iter().map(|(option, value)| format!("--{option}={value}")));
            let program = Program::start(move || {
                let mut command = bound("etcd");
                command.args(&arguments);
                command
            });
            Member { port: *port, access: access.clone(), program }
        };
        let cluster = Self { members: ports.iter().enumerate().map(start).collect(), _folder: folder };
        let up = cluster.members.iter().all(Member::answers);
        assert!(up, "etcd cannot be started: see whether the package etcd-server is installed");
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

    /// The member that leads, as a member that runs sees it.
    pub(crate) fn leader(&self) -> usize {
        let until = Instant::now() + STARTING;
        while Instant::now() < until {
            for (at, member) in self.members.iter().enumerate().filter(|(_, member)| member.program.is_up()) {
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
        for Member { program, .. } in &self.members {
            if program.is_up() {
                program.signal(rustix::process::Signal::CONT);
            } else {
                program.restart();
            }
        }
        assert!(self.members.iter().all(Member::answers), "not all are back");
    }
}

impl Member {
    fn answers(&self) -> bool {
        let address = format!("//127.0.0.1:{}", self.port);
        let mut words = vec!["--command-timeout=1s", "get", "a"];
        words.extend(self.access.iter().map(String::as_str));
        self.program.answers(STARTING, || etcdctl(&address, &words).status.success())
    }
}

/// What etcdctl must be told to speak TLS.
fn access(authority: &Authority) -> Vec<String> {
    let options = [("cacert", "ca.crt"), ("cert", "client.crt"), ("key", "client.key")];
    options.map(|(option, file)| format!("--{option}={}", authority.path(file))).to_vec()
}

/// Where a member is, and who the others are.
fn place(at: usize, client: &str, peer: u16, peers: &str, data: &str) -> Vec<String> {
    let (client, own) = (client.to_owned(), format!("http://127.0.0.1:{peer}"));
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

/// etcd's own client.
pub(crate) fn etcdctl(address: &str, words: &[&str]) -> Output {
    ctl(address, words).output().expect("etcdctl is there: see whether the package etcd-client is installed")
}

/// The same, to be started.
pub(crate) fn ctl(address: &str, words: &[&str]) -> Command {
    let mut command = bound("etcdctl");
    command.args(["--endpoints", address.trim_start_matches('/')]).args(words);
    command.env("ETCDCTL_API", "3").stdout(Stdio::piped());
    command
}

/// Both sides of a client, without the client.
pub(crate) async fn client(address: &str, prefix: &str) -> Sides {
    Sides::of(&Etcd::at(address).unwrap().prefix(prefix).unwrap()).await
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
