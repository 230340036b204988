//! A Redis server of a test's own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lockhouse_testkit::{Program, bound, free_port};

/// A server that is ended with its test.
pub(crate) struct Redis {
    port: u16,
    pub(crate) program: Program,
}

impl Redis {
    /// Starts a server on a free port, and waits until it answers.
    ///
    /// A server that has just started grants nothing for as long as the first lease that is asked for.
    pub(crate) fn start() -> Self {
        let port = free_port();
        let program = Program::start(move || {
            let mut command = bound("redis-server");
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            command.args(["--port", &port.to_string(), "--dir", env!("CARGO_TARGET_TMPDIR")]);
            command
        });
        let answers = program.answers(Duration::from_secs(10), || ping(port).is_ok_and(|answer| answer == *b"+PONG"));
        assert!(answers, "redis-server cannot be started: see whether the package redis-server is installed");
        Self { port, program }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn ping(port: u16) -> std::io::Result<[u8; 5]> {
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    server.set_read_timeout(Some(Duration::from_secs(1)))?;
    server.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    server.read_exact(&mut answer)?;
    Ok(answer)
}
