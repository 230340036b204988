//! Redis servers of the tests' own, and clients of theirs.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockhouse_redis::Redis;
use lockhouse_testkit::{Program, Sides, bound, free_port};
use rustix::process::Signal;

/// A server that is ended when it is dropped, and at the latest when the test process ends.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    program: Program,
}

/// The server that most tests share: the one in `LOCKHOUSE_TEST_REDIS` if that is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| Server::start(&[]).keep()));
    SHARED.clone()
}

/// The address of a server that was given to the tests.
pub(crate) fn given() -> Option<String> {
    lockhouse_testkit::given("LOCKHOUSE_TEST_REDIS")
}

impl Server {
    /// Starts a server with these options on a free port, and waits until it answers.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_in(options, &[])
    }

    /// The same with variables of its environment.
    pub(crate) fn start_in(options: &[&str], environment: &[(&'static str, String)]) -> Self {
        let server = Self::start_anew(options, environment);
        settle(&server.address(), "lockhouse:");
        server
    }

    /// A server that gives nothing away at first, or is a replica.
    pub(crate) fn start_anew(options: &[&str], environment: &[(&'static str, String)]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let (port, options) = (free_port(), owned(options));
        let environment = environment.to_vec();
        let program = Program::start(move || {
            let mut command = bound("redis-server");
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            command.args(["--port", &port.to_string(), "--dir", env!("CARGO_TARGET_TMPDIR")]);
            command.args(["--dbfilename", &format!("{port}.rdb")]).args(&options);
            command.envs(environment.iter().cloned());
            command
        });
        let server = Self { port, program };
        assert!(server.answers(), "redis-server cannot be started: see whether the package redis-server is installed");
        server
    }

    pub(crate) fn address(&self) -> String {
        format!("//127.0.0.1:{}", self.port)
    }

    /// Lets it live as long as the test process.
    fn keep(self) -> String {
        let address = self.address();
        std::mem::forget(self);
        address
    }

    fn answers(&self) -> bool {
        self.program.answers(Duration::from_secs(10), || {
            let connected = plain(&self.address()).get_connection_with_timeout(Duration::from_secs(1));
            connected.is_ok_and(|mut connection| redis::cmd("PING").exec(&mut connection).is_ok())
        })
    }

    /// Ends it without warning.
    pub(crate) fn kill(&self) {
        self.program.kill();
    }

    /// Whether it was ended and not started again.
    pub(crate) fn is_down(&self) -> bool {
        !self.program.is_up()
    }

    /// Starts it again on the same port.
    pub(crate) fn restart(&self) {
        self.start_again();
        assert!(self.answers(), "the server cannot be started again");
    }

    /// The same without waiting until it answers.
    pub(crate) fn start_again(&self) {
        self.program.restart();
    }

    /// Makes it stand still, or go on.
    pub(crate) fn signal(&self, signal: Signal) {
        self.program.signal(signal);
    }

    /// Sends it a command.
    pub(crate) fn tell(&self, command: &str) -> redis::Value {
        tell(&self.address(), command)
    }
}

/// What a server says about itself.
pub(crate) fn info(address: &str, section: &str, key: &str) -> Option<String> {
    let mut connection = plain(address).get_connection_with_timeout(Duration::from_secs(1)).ok()?;
    let info: String = redis::cmd("INFO").arg(section).query(&mut connection).ok()?;
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(|value| value.trim().to_owned()))
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not so after 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a server a command, whose words are separated by spaces.
pub(crate) fn tell(address: &str, command: &str) -> redis::Value {
    tell_words(address, &command.split(' ').collect::<Vec<_>>())
}

/// Sends a server a command of these words.
pub(crate) fn tell_words(address: &str, words: &[&str]) -> redis::Value {
    let mut connection = plain(address).get_connection().unwrap();
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(&mut connection).unwrap()
}

/// Makes a server that was just started give locks away at once: there was nobody before it who could have.
pub(crate) fn settle(address: &str, prefix: &str) {
    let mut connection = plain(address).get_connection().unwrap();
    let info: String = redis::cmd("INFO").arg("server").query(&mut connection).unwrap();
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim();
    tell_words(address, &["SET", &format!("{prefix}\ttokens"), &format!("0 {run_id} 0")]);
}

/// A client that has nothing to do with the engine.
pub(crate) fn plain(address: &str) -> redis::Client {
    redis::Client::open(format!("redis:{address}")).unwrap()
}

/// Both sides of a client at a server that gives locks away.
pub(crate) async fn client(address: &str, prefix: &str) -> Sides {
    settle(address, prefix);
    Sides::of(&Redis::at(address).unwrap().prefix(prefix).unwrap()).await
}

/// A prefix that no other test uses.
pub(crate) fn prefix() -> String {
    format!("test-{:08x}:", rand::random::<u32>())
}

/// Everything that is left of a prefix but for the counter of tokens.
pub(crate) fn left_over(address: &str, prefix: &str) -> Vec<String> {
    let mut connection = plain(address).get_connection().unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("*{prefix}*")).query(&mut connection).unwrap();
    keys.into_iter().filter(|key| !key.ends_with("\ttokens")).collect()
}
