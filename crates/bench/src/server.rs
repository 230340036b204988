//! The server beside which something is measured, ended with the bench.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::turns::Outcome;

/// A server on a free port of this machine.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub port: u16,
    _folder: TempDir,
}

impl Server {
    /// One etcd with its usual settings: what it says is done is on the disk.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn etcd() -> Outcome<Self> {
        let (folder, [port, peer]) = (TempDir::new()?, free_ports()?);
        let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(folder.path());
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}"), "--logger", "zap", "--log-level", "error"]);
        Self::start(command, port, folder)
    }

    /// One ZooKeeper with its usual settings: what it says is done is on the disk.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn zookeeper() -> Outcome<Self> {
        let (folder, [port, _]) = (TempDir::new()?, free_ports()?);
        let (settings, data) = (folder.path().join("zoo.cfg"), folder.path().join("data"));
        let text = format!(
            "tickTime=2000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            data.display()
        );
        std::fs::write(&settings, text)?;
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-cp", "/usr/share/java/zookeeper.jar"]);
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(settings);
        Self::start(command, port, folder)
    }

    fn start(mut command: Command, port: u16, folder: TempDir) -> Outcome<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let server = Self { child, port, _folder: folder };
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > until {
                return Err("the server does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_ports() -> Outcome<[u16; 2]> {
    // Both at once, so that they are different.
    let (first, second) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok([first.local_addr()?.port(), second.local_addr()?.port()])
}
