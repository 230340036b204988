//! PostgreSQL servers of the tests' own, and clients of theirs.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod psql;
pub(crate) mod subject;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, ClaimId, Connector, Engine, Name, Owner, Patience, Side};
use lockhouse_postgres::Postgres;
use lockhouse_testkit::Proxy;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// A server that is ended when it is dropped, and at the latest when the test process ends.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    options: Vec<String>,
    folder: TempDir,
    child: Mutex<Child>,
}

/// The server that most tests share: the one in `LOCKHOUSE_TEST_POSTGRES` if that is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| Server::start(&[]).keep()));
    SHARED.clone()
}

/// The address of a server that was given to the tests.
#[expect(clippy::disallowed_methods, reason = "tests are told of a server by the environment")]
pub(crate) fn given() -> Option<String> {
    let url = std::env::var("LOCKHOUSE_TEST_POSTGRES").ok()?;
    Some(url.strip_prefix("postgres:").unwrap_or(&url).to_owned())
}

impl Server {
    /// Starts a server with these settings on a free port, and waits until it answers.
    pub(crate) fn start(options: &[&str]) -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        let mut prepare = as_postgres(&program("initdb"));
        prepare.arg("-D").arg(&data).args(["-A", "trust", "-U", "postgres", "--no-sync", "--no-locale"]);
        run(prepare.args(["--encoding=UTF8"]));
        Self::start_on(folder, options)
    }

    fn start_on(folder: TempDir, options: &[&str]) -> Self {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let port = free_port();
        let child = Mutex::new(spawn(port, folder.path(), &options));
        let server = Self { port, options, folder, child };
        assert!(server.answers(Duration::from_secs(20)), "the server cannot be started");
        server
    }

    pub(crate) fn address(&self) -> String {
        format!("//postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// A server on a copy of another's data, such as a replica.
    pub(crate) fn start_replica(of: &Self) -> Self {
        let folder = folder();
        let mut copy = as_postgres(&program("pg_basebackup"));
        copy.arg("-D").arg(folder.path().join("data")).args(["-h", "127.0.0.1", "-p", &of.port.to_string()]);
        run(copy.args(["-U", "postgres", "-R", "--no-sync", "-c", "fast", "-X", "stream"]));
        Self::start_on(folder, &[])
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
            if try_tell_blocking(&self.address(), "SELECT 1").is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Ends it without warning. PostgreSQL's immediate shutdown: nothing is written any more, and the next start
    /// recovers from the log, as after a crash.
    pub(crate) fn kill(&self) {
        self.signal_one(self.id(), Signal::QUIT);
        self.child.lock().unwrap().wait().unwrap();
    }

    /// Starts it again on the same port.
    pub(crate) fn restart(&self) {
        *self.child.lock().unwrap() = spawn(self.port, self.folder.path(), &self.options);
        assert!(self.answers(Duration::from_secs(20)), "the server cannot be started again");
    }

    /// Makes it stand still: first the one that starts others, then all of those.
    pub(crate) fn pause(&self) {
        self.signal_one(self.id(), Signal::STOP);
        self.children().into_iter().for_each(|child| self.signal_one(child, Signal::STOP));
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.children().into_iter().for_each(|child| self.signal_one(child, Signal::CONT));
        self.signal_one(self.id(), Signal::CONT);
    }

    fn id(&self) -> i32 {
        self.child.lock().unwrap().id().cast_signed()
    }

    fn children(&self) -> Vec<i32> {
        let id = self.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        children.split_whitespace().map(|child| child.parse().unwrap()).collect()
    }

    fn signal_one(&self, id: i32, signal: Signal) {
        // A process of the server's may have ended by itself.
        let _ = kill_process(Pid::from_raw(id).unwrap(), signal);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.resume();
        self.kill();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A pooler before a server. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Pooler {
    port: u16,
    child: Child,
    _folder: TempDir,
}

impl Pooler {
    /// PgBouncer in this mode.
    pub(crate) fn start(server: &Server, mode: &str) -> Self {
        let folder = folder();
        let (port, users, config) = (free_port(), folder.path().join("users"), folder.path().join("config"));
        std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             auth_type = trust\nauth_file = {}\npool_mode = {mode}\nunix_socket_dir =\n",
            server.port,
            users.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = as_postgres(&program("pgbouncer"));
        command.arg(&config);
        let pooler = Self { port, child: start(command), _folder: folder };
        let until = Instant::now() + Duration::from_secs(10);
        while try_tell_blocking(&pooler.address(), "SELECT 1").is_err() {
            assert!(Instant::now() < until, "pgbouncer cannot be started: see whether its package is installed");
            std::thread::sleep(Duration::from_millis(20));
        }
        pooler
    }

    pub(crate) fn address(&self) -> String {
        format!("//postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that the account of the servers may use. What killed test processes have left of theirs is cleared away.
fn folder() -> TempDir {
    const PREFIX: &str = "lockhouse-postgres-";
    for old in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let ours = old.file_name().to_string_lossy().starts_with(PREFIX);
        let maker = std::fs::read_to_string(old.path().join("maker")).unwrap_or_default();
        if ours && !maker.is_empty() && !Path::new(&format!("/proc/{maker}")).exists() {
            let _ = std::fs::remove_dir_all(old.path());
        }
    }
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap();
    std::fs::write(folder.path().join("maker"), std::process::id().to_string()).unwrap();
    if geteuid().is_root() {
        run(Command::new("chown").arg("postgres:postgres").arg(folder.path()));
    }
    folder
}

/// Where Debian keeps the programs of a server: not on the path.
pub(crate) fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().unwrap_or_else(|| PathBuf::from(name))
}

/// PostgreSQL refuses to run as root.
fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    // The kernel ends it, by a fast shutdown, when the thread that started it ends: with the process and not before.
    command.args(["--pdeathsig", "INT"]);
    if geteuid().is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let done = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.success(), "{command:?} failed: see whether the package postgresql is installed");
}

fn spawn(port: u16, folder: &Path, options: &[String]) -> Child {
    let mut command = as_postgres(&program("postgres"));
    command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
    let settings = ["listen_addresses=127.0.0.1", "max_connections=500", "fsync=off"].map(str::to_owned);
    let socket = format!("unix_socket_directories={}", folder.display());
    for setting in settings.iter().chain([&socket]).chain(options) {
        command.args(["-c", setting]);
    }
    start(command)
}

/// Starts a program on a thread that lives as long as this process.
fn start(command: Command) -> Child {
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

/// Sends a server statements, and gives the first column of the rows of the last of them.
pub(crate) async fn tell(address: &str, statements: &str) -> Vec<String> {
    try_tell(address, statements).await.unwrap()
}

pub(crate) async fn try_tell(address: &str, statements: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(&format!("postgres:{address}"), NoTls).await?;
    let talk = async move {
        let mut rows = Vec::new();
        for message in client.simple_query(statements).await? {
            match message {
                SimpleQueryMessage::Row(row) => rows.push(row.get(0).unwrap_or_default().to_owned()),
                SimpleQueryMessage::RowDescription(_) => rows.clear(),
                _ => {}
            }
        }
        Ok(rows)
    };
    let (rows, _) = futures_util::future::join(talk, connection).await;
    rows
}

fn try_tell_blocking(address: &str, statements: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    // A thread of its own, since the caller may be inside a runtime.
    std::thread::scope(|scope| {
        let talk = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(try_tell(address, statements))
        });
        talk.join().unwrap()
    })
}

/// Both sides of a client, without the client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) keeper: Arc<dyn Engine>,
    pub(crate) front: Arc<dyn Engine>,
}

pub(crate) async fn client(address: &str, table: &str) -> Client {
    let postgres = Postgres::at(address).unwrap().table(table).unwrap();
    Client {
        keeper: postgres.connect(Side::Keeper).await.unwrap(),
        front: postgres.connect(Side::Front).await.unwrap(),
    }
}

/// A proxy before a server, and the address of the server through it.
pub(crate) fn through(address: &str) -> (Proxy, String) {
    let (user, place) = address.rsplit_once('@').unwrap_or(("//", address));
    let (server, database) = place.split_once('/').expect("an address with a database");
    let proxy = Proxy::before(server.parse().expect("an address with a port"));
    let through = format!("{user}@{}/{database}", proxy.address());
    (proxy, through)
}

/// A name for tables that no other test uses.
pub(crate) fn table() -> String {
    format!("test_{:08x}", rand::random::<u32>())
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
