//! ZooKeeper servers of the tests' own: one alone, or an ensemble of three.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockhouse_testkit::{Authority, Program, bound, free_port};
use rustix::process::Signal;
use tempfile::TempDir;

pub(crate) mod subject;

/// Where Debian puts the server; the jar names what else it needs.
const JAR: &str = "/usr/share/java/zookeeper.jar";
/// What a server needs beside that to speak TLS: the jar above names Netty only in parts.
const NETTY: &str = "/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar";
/// A Java program on a busy machine takes its time.
const STARTING: Duration = Duration::from_secs(60);

/// Servers that agree among themselves, ended when they are dropped and at the latest when the test process ends.
#[derive(Debug)]
pub(crate) struct Servers {
    members: Vec<Member>,
    _home: TempDir,
}

#[derive(Debug)]
struct Member {
    port: u16,
    program: Program,
}

/// The server that most tests share: the one in `LOCKHOUSE_TEST_ZOOKEEPER` if that is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| keep(Servers::start(1))));
    SHARED.clone()
}

/// An ensemble of three that tests share.
pub(crate) fn shared_ensemble() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| keep(Servers::start(3)));
    SHARED.clone()
}

/// The address of a server that was given to the tests.
pub(crate) fn given() -> Option<String> {
    lockhouse_testkit::given("LOCKHOUSE_TEST_ZOOKEEPER")
}

/// Lets servers live as long as the test process.
fn keep(servers: Servers) -> String {
    let address = servers.address();
    std::mem::forget(servers);
    address
}

impl Servers {
    /// Starts so many servers on free ports, and waits until all answer.
    pub(crate) fn start(members: usize) -> Self {
        Self::start_with(members, |_| String::new())
    }

    /// One that is also spoken to through TLS, on the port that is returned.
    pub(crate) fn start_secured(authority: &Authority) -> (Self, u16) {
        let port = free_port();
        let store = authority.path("server.p12");
        let mut pack = Command::new("openssl");
        pack.args(["pkcs12", "-export", "-out", &store, "-passout", "pass:secret"]);
        pack.args(["-in", &authority.path("server.crt"), "-inkey", &authority.path("server.key")]);
        assert!(pack.status().expect("openssl is installed").success());
        let more = format!(
            "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
             serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
             ssl.keyStore.location={store}\nssl.keyStore.password=secret\nssl.keyStore.type=PKCS12\n\
             ssl.clientAuth=none\n"
        );
        (Self::start_with(1, |_| more.clone()), port)
    }

    /// One that clears containers away as soon as they are empty, and not once a minute.
    pub(crate) fn start_clearing() -> Self {
        const SOON: [&str; 2] = ["-Dznode.container.checkIntervalMs=2", "-Dznode.container.maxPerMinute=600000"];
        Self::start_as(1, |_| String::new(), &SOON)
    }

    fn start_with(count: usize, more: impl Fn(usize) -> String) -> Self {
        Self::start_as(count, more, &[])
    }

    /// With more lines in the settings of each, and more properties of the Java program.
    fn start_as(count: usize, more: impl Fn(usize) -> String, properties: &'static [&'static str]) -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let peer = |at| format!("server.{at}=127.0.0.1:{}:{}\n", free_port(), free_port());
        let peers: String = if count == 1 { String::new() } else { (1..=count).map(peer).collect() };
        let start = |at| {
            let port = free_port();
            let config = settings(home.path(), at, port, &format!("{peers}{}", more(at)));
            Member { port, program: Program::start(move || server(&config, properties)) }
        };
        let servers = Self { members: (1..=count).map(start).collect(), _home: home };
        let up = servers.members.iter().all(Member::answers);
        assert!(up, "ZooKeeper cannot be started: see whether the package libzookeeper-java is installed");
        servers
    }

    /// The address of all of them.
    pub(crate) fn address(&self) -> String {
        let hosts: Vec<String> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("//{}", hosts.join(","))
    }

    /// Ends all without warning.
    pub(crate) fn kill_all(&self) {
        self.members.iter().for_each(|member| member.program.kill());
    }

    /// Ends the leader without warning.
    pub(crate) fn kill_leader(&self) {
        self.leader().program.kill();
    }

    /// Ends one that does not lead, without warning.
    pub(crate) fn kill_follower(&self) {
        let follower = self.members.iter().find(|member| member.mode().as_deref() == Some("follower"));
        follower.expect("an ensemble has followers").program.kill();
    }

    /// Ends so many that no majority is left, the leader among them.
    pub(crate) fn kill_majority(&self) {
        let leader = self.leader().port;
        let others = self.members.iter().filter(|member| member.port != leader);
        others.take(self.members.len() / 2).for_each(|member| member.program.kill());
        self.members.iter().filter(|member| member.port == leader).for_each(|member| member.program.kill());
    }

    /// Makes the leader stand still.
    pub(crate) fn pause_leader(&self) {
        self.leader().program.signal(Signal::STOP);
    }

    /// Makes all stand still, or go on.
    pub(crate) fn signal_all(&self, signal: Signal) {
        self.members.iter().for_each(|member| member.program.signal(signal));
    }

    /// Brings back whatever was ended or paused, and waits until all answer.
    pub(crate) fn restore(&self) {
        for Member { program, .. } in &self.members {
            program.signal(Signal::CONT);
            if !program.is_up() {
                program.restart();
            }
        }
        assert!(self.members.iter().all(Member::answers), "the servers cannot be started again");
    }

    fn leader(&self) -> &Member {
        let until = Instant::now() + STARTING;
        while Instant::now() < until {
            let leads = |member: &&Member| matches!(member.mode().as_deref(), Some("leader" | "standalone"));
            if let Some(leader) = self.members.iter().find(leads) {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the servers elect no leader");
    }
}

impl Member {
    /// What it says it is: `None` when it does not serve.
    fn mode(&self) -> Option<String> {
        let said = word(self.port, "srvr")?;
        said.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    fn answers(&self) -> bool {
        self.program.answers(STARTING, || self.mode().is_some())
    }
}

/// What a server answers to one of its four-letter words.
pub(crate) fn word(port: u16, word: &str) -> Option<String> {
    let limit = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), limit).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    stream.write_all(word.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// The settings of one server, in a file.
fn settings(home: &Path, at: usize, port: u16, more: &str) -> PathBuf {
    let (data, config) = (home.join(at.to_string()), home.join(format!("{at}.cfg")));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("myid"), at.to_string()).unwrap();
    // Alone: sessions of one to ten seconds. In an ensemble up to twenty, longer than an election on a busy machine.
    let (tick, sync) = if more.starts_with("server.1=") { (1000, 2) } else { (500, 4) };
    // No waiting for the disk: what a killed server wrote is in the kernel's memory.
    let settings = format!(
        "tickTime={tick}\ninitLimit=20\nsyncLimit={sync}\ndataDir={}\nclientPort={port}\n\
         clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n\
         forceSync=no\n{more}",
        data.display()
    );
    std::fs::write(&config, settings).unwrap();
    config
}

fn server(config: &Path, properties: &[&str]) -> Command {
    let mut command = bound("java");
    command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &format!("{JAR}:{NETTY}")]);
    command.args(properties).arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(config);
    command
}
