//! The server beside which something is measured, ended with the bench.

use std::net::TcpStream;
use std::time::Duration;

use lockhouse_testkit::{Program, bound, free_port};
use tempfile::TempDir;

use crate::turns::Outcome;

/// What a server may take until it listens.
const STARTING: Duration = Duration::from_secs(30);

/// A server on a free port of this machine.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub port: u16,
    _program: Program,
    _folder: TempDir,
}

impl Server {
    /// One etcd with its usual settings: what it says is done is on the disk.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn etcd() -> Outcome<Self> {
        let folder = TempDir::new()?;
        let [client, peer] = [(); 2].map(|()| free_port());
        let options = [
            ("data-dir", folder.path().display().to_string()),
            ("listen-client-urls", format!("http://127.0.0.1:{client}")),
            ("advertise-client-urls", format!("http://127.0.0.1:{client}")),
            ("listen-peer-urls", format!("http://127.0.0.1:{peer}")),
            ("initial-advertise-peer-urls", format!("http://127.0.0.1:{peer}")),
            ("initial-cluster", format!("default=http://127.0.0.1:{peer}")),
        ];
        let arguments = options.map(|(option, value)| format!("--{option}={value}"));
        Self::start("etcd", arguments.to_vec(), client, folder)
    }

    /// One ZooKeeper with its usual settings: what it says is done is on the disk.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn zookeeper() -> Outcome<Self> {
        let (folder, port) = (TempDir::new()?, free_port());
        let (settings, data) = (folder.path().join("zoo.cfg"), folder.path().join("data"));
        let text = format!(
            "tickTime=2000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            data.display()
        );
        std::fs::write(&settings, text)?;
        let class = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
        let arguments = ["-Xmx256m", "-cp", "/usr/share/java/zookeeper.jar", class].map(str::to_owned);
        Self::start("java", [arguments.as_slice(), &[settings.display().to_string()]].concat(), port, folder)
    }

    /// One Consul server that is tuned as Consul advises for production: what it says is done is on the disk.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn consul() -> Outcome<Self> {
        let folder = TempDir::new()?;
        let [http, server, serf] = [(); 3].map(|()| free_port());
        let options = [
            "agent".to_owned(),
            "-server".to_owned(),
            "-bootstrap-expect=1".to_owned(),
            format!("-data-dir={}", folder.path().display()),
            "-bind=127.0.0.1".to_owned(),
            "-client=127.0.0.1".to_owned(),
            format!("-http-port={http}"),
            format!("-server-port={server}"),
            format!("-serf-lan-port={serf}"),
            "-serf-wan-port=-1".to_owned(),
            "-grpc-port=-1".to_owned(),
            "-dns-port=-1".to_owned(),
            "-hcl=performance { raft_multiplier = 1 }".to_owned(),
            "-hcl=disable_update_check = true".to_owned(),
        ];
        // The one in the path, or the one that `cargo xtask engines install consul` fetched.
        let fetched = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/consul/usr/bin/consul");
        let works = |program: &&str| std::process::Command::new(program).arg("version").output().is_ok();
        let program = ["consul", fetched].into_iter().find(works).ok_or("there is no consul")?;
        Self::start(program, options.to_vec(), http, folder)
    }

    fn start(program: &'static str, arguments: Vec<String>, port: u16, folder: TempDir) -> Outcome<Self> {
        let program = Program::start(move || {
            let mut command = bound(program);
            command.args(&arguments);
            command
        });
        if !program.answers(STARTING, || TcpStream::connect(("127.0.0.1", port)).is_ok()) {
            return Err("the server does not listen".into());
        }
        Ok(Self { port, _program: program, _folder: folder })
    }
}
