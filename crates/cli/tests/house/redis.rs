//! A Redis server of a test's own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A server that is ended with its test.
pub(crate) struct Redis {
    port: u16,
    child: Child,
}

impl Redis {
    /// Starts a server on a free port, and waits until it answers.
    ///
    /// A server that has just started grants nothing for as long as the first lease that is asked for.
    pub(crate) fn start() -> Self {
        // Another program may be faster to take the port.
        for _ in 0..5 {
            let port = free_port();
            let redis = Self { port, child: spawn(port) };
            if redis.answers() {
                return redis;
            }
        }
        panic!("redis-server cannot be started: see whether the package redis-server is installed");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn answers(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if ping(self.port).is_ok_and(|answer| answer == *b"+PONG") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Ends it without warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Makes it stand still, or go on.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on at this moment.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn ping(port: u16) -> std::io::Result<[u8; 5]> {
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    server.set_read_timeout(Some(Duration::from_secs(1)))?;
    server.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    server.read_exact(&mut answer)?;
    Ok(answer)
}

fn spawn(port: u16) -> Child {
    let mut command = Command::new("setpriv");
    // The kernel ends the server when the thread that started it ends: that of the test.
    command.args(["--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--port", &port.to_string(), "--dir", env!("CARGO_TARGET_TMPDIR")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("setpriv is there, as on every Debian")
}
