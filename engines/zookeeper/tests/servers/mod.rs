//! ZooKeeper servers of the tests' own: one alone, or an ensemble of three.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) mod subject;

/// Where Debian puts the server; the jar names what else it needs.
const JAR: &str = "/usr/share/java/zookeeper.jar";
/// Half a second: sessions of one to ten seconds.
const TICK_MILLIS: u32 = 500;
/// A Java program on a busy machine takes its time.
const STARTING: Duration = Duration::from_secs(60);

/// Servers that agree among themselves, ended when they are dropped and at the latest when the test process ends.
#[derive(Debug)]
pub(crate) struct Servers {
    members: Vec<Member>,
    _home: tempfile::TempDir,
}

#[derive(Debug)]
struct Member {
    port: u16,
    config: PathBuf,
    child: Mutex<Child>,
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
#[expect(clippy::disallowed_methods, reason = "tests are told of a server by the environment")]
pub(crate) fn given() -> Option<String> {
    let url = std::env::var("LOCKHOUSE_TEST_ZOOKEEPER").ok()?;
    Some(url.strip_prefix("zookeeper:").unwrap_or(&url).to_owned())
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
        // Another program may be faster to take a port.
        for _ in 0..3 {
            let servers = Self::launch(members);
            if servers.members.iter().all(|member| member.answers()) {
                return servers;
            }
        }
        panic!("ZooKeeper cannot be started: see whether the package libzookeeper-java is installed");
    }

    fn launch(count: usize) -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // All at once, so that none is given twice.
        let held: Vec<TcpListener> = (0..count * 3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = held.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        drop(held);
        let peers: String = if count == 1 {
            String::new()
        } else {
            let peer = |at: usize| {
                format!("server.{}=127.0.0.1:{}:{}\n", at + 1, ports[count + 2 * at], ports[count + 2 * at + 1])
            };
            (0..count).map(peer).collect()
        };
        let members = (0..count).map(|at| {
            let data = home.path().join(at.to_string());
            std::fs::create_dir(&data).unwrap();
            std::fs::write(data.join("myid"), (at + 1).to_string()).unwrap();
            let config = home.path().join(format!("{at}.cfg"));
            let port = ports[at];
            // No waiting for the disk: what a killed server wrote is in the kernel's memory.
            let settings = format!(
                "tickTime={TICK_MILLIS}\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={port}\n\
                 clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n\
                 forceSync=no\n{peers}",
                data.display()
            );
            std::fs::write(&config, settings).unwrap();
            let child = Mutex::new(spawn(&config));
            Member { port, config, child }
        });
        Self { members: members.collect(), _home: home }
    }

    /// The address of all of them.
    pub(crate) fn address(&self) -> String {
        let hosts: Vec<String> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("//{}", hosts.join(","))
    }

    /// Ends all without warning.
    pub(crate) fn kill_all(&self) {
        self.members.iter().for_each(Member::kill);
    }

    /// Ends the leader without warning.
    pub(crate) fn kill_leader(&self) {
        self.leader().kill();
    }

    /// Ends one that does not lead, without warning.
    pub(crate) fn kill_follower(&self) {
        let follower = self.members.iter().find(|member| member.mode().as_deref() == Some("follower"));
        follower.expect("an ensemble has followers").kill();
    }

    /// Ends so many that no majority is left, the leader among them.
    pub(crate) fn kill_majority(&self) {
        let leader = self.leader().port;
        self.members.iter().filter(|member| member.port != leader).take(self.members.len() / 2).for_each(Member::kill);
        self.members.iter().filter(|member| member.port == leader).for_each(Member::kill);
    }

    /// Makes the leader stand still.
    pub(crate) fn pause_leader(&self) {
        self.leader().signal(Signal::STOP);
    }

    /// Makes all stand still, or go on.
    pub(crate) fn signal_all(&self, signal: Signal) {
        self.members.iter().for_each(|member| member.signal(signal));
    }

    /// Brings back whatever was ended or paused, and waits until all answer.
    pub(crate) fn restore(&self) {
        for member in &self.members {
            member.signal(Signal::CONT);
            let mut child = member.child.lock().unwrap();
            if child.try_wait().unwrap().is_some() {
                *child = spawn(&member.config);
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
        let until = Instant::now() + STARTING;
        while Instant::now() < until {
            if self.child.lock().unwrap().try_wait().unwrap().is_some() {
                return false;
            }
            if self.mode().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
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

fn spawn(config: &PathBuf) -> Child {
    let mut command = Command::new("setpriv");
    // The kernel ends the server when the thread that started it ends, which it does with the process alone.
    command.args([
        "--pdeathsig",
        "KILL",
        "java",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        JAR,
    ]);
    command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(config);
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
