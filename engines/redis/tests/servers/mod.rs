//! Redis servers of the tests' own, and clients of theirs.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, ClaimId, Connector, Engine, Name, Owner, Patience, Side};
use lockhouse_redis::Redis;
use rustix::process::{Pid, Signal, kill_process};

/// A server that is ended when it is dropped, and at the latest when the test process ends.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    child: Mutex<Child>,
}

/// The server that most tests share: the one in `LOCKHOUSE_TEST_REDIS` if that is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| Server::start(&[]).keep()));
    SHARED.clone()
}

/// The address of a server that was given to the tests.
#[expect(clippy::disallowed_methods, reason = "tests are told of a server by the environment")]
pub(crate) fn given() -> Option<String> {
    let url = std::env::var("LOCKHOUSE_TEST_REDIS").ok()?;
    Some(url.strip_prefix("redis:").unwrap_or(&url).to_owned())
}

impl Server {
    /// Starts a server with these options on a free port, and waits until it answers.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_in(options, &[])
    }

    /// The same with variables of its environment.
    pub(crate) fn start_in(options: &[&str], environment: &[(&str, &str)]) -> Self {
        let server = Self::start_anew(options, environment);
        settle(&server.address(), "lockhouse:");
        server
    }

    /// A server that gives nothing away at first, or is a replica.
    pub(crate) fn start_anew(options: &[&str], environment: &[(&str, &str)]) -> Self {
        let environment: Vec<(String, String)> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        // Another program may be faster to take the port.
        for _ in 0..5 {
            let port = free_port();
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            let child = Mutex::new(spawn(port, &options, &environment));
            let server = Self { port, child, options, environment: environment.clone() };
            if server.answers(Duration::from_secs(10)) {
                return server;
            }
        }
        panic!("redis-server cannot be started: see whether the package redis-server is installed");
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

    fn answers(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if self.child.lock().unwrap().try_wait().unwrap().is_some() {
                return false;
            }
            if let Ok(mut connection) = plain(&self.address()).get_connection_with_timeout(Duration::from_secs(1))
                && redis::cmd("PING").exec(&mut connection).is_ok()
            {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Ends it without warning.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Whether it was ended and not started again.
    pub(crate) fn is_down(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_some()
    }

    /// Starts it again on the same port.
    pub(crate) fn restart(&self) {
        *self.child.lock().unwrap() = spawn(self.port, &self.options, &self.environment);
        assert!(self.answers(Duration::from_secs(10)), "the server cannot be started again");
    }

    /// Makes it stand still, or go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap().id();
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), signal).unwrap();
    }

    /// Sends it a command.
    pub(crate) fn tell(&self, command: &str) -> redis::Value {
        tell(&self.address(), command)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A port that nobody uses. The servers of a cluster also use the one that is 10 000 higher.
pub(crate) fn free_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
    ports.find(|port| *port <= u16::MAX - 10_000).unwrap()
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

fn spawn(port: u16, options: &[String], environment: &[(String, String)]) -> Child {
    let mut command = Command::new("setpriv");
    // The kernel ends the server when the thread that started it ends, which it does with the process alone.
    command.args(["--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--port", &port.to_string(), "--dir", env!("CARGO_TARGET_TMPDIR")]);
    command.args(["--dbfilename", &format!("{port}.rdb")]).args(options);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
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

/// Both sides of a client, without the client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) keeper: Arc<dyn Engine>,
    pub(crate) front: Arc<dyn Engine>,
}

pub(crate) async fn client(address: &str, prefix: &str) -> Client {
    settle(address, prefix);
    let redis = Redis::at(address).unwrap().prefix(prefix).unwrap();
    Client { keeper: redis.connect(Side::Keeper).await.unwrap(), front: redis.connect(Side::Front).await.unwrap() }
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
        ttl: Duration::from_secs(30),
        note: None,
        floor: 0,
        lingers: false,
    }
}
