//! MariaDB servers of the tests' own, and clients of theirs.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod subject;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use lockhouse_core::{Claim, ClaimId, Connector, Engine, Name, Owner, Patience, Side};
use lockhouse_mysql::Mysql;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The database that a server of the tests' own has.
const DATABASE: &str = "lockhouse";
/// Its log, which is copied with it.
const SMALL: &str = "--innodb-log-file-size=8M";

/// A server that is ended when it is dropped, and at the latest when the test process ends.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    options: Vec<String>,
    folder: TempDir,
    child: Mutex<Child>,
}

/// The server writes it when it is up.
const PID_FILE: &str = "my.pid";

/// The server that most tests share: the one in `LOCKHOUSE_TEST_MYSQL` if that is set.
pub(crate) fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| given().unwrap_or_else(|| Server::start(&[]).keep()));
    SHARED.clone()
}

/// The address of a server that was given to the tests.
#[expect(clippy::disallowed_methods, reason = "tests are told of a server by the environment")]
pub(crate) fn given() -> Option<String> {
    let url = std::env::var("LOCKHOUSE_TEST_MYSQL").ok()?;
    Some(url.strip_prefix("mysql:").unwrap_or(&url).to_owned())
}

impl Server {
    /// Starts a server with these options on a free port, and waits until it answers.
    pub(crate) fn start(options: &[&str]) -> Self {
        // Another program may be faster to take the port.
        for _ in 0..5 {
            let folder = folder_with_an_empty_server();
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            let child = Mutex::new(spawn(port, &folder, &options));
            let server = Self { port, child, options, folder };
            if server.answers(Duration::from_secs(60)) {
                return server;
            }
        }
        panic!("mariadbd cannot be started: see whether the package mariadb-server is installed");
    }

    pub(crate) fn address(&self) -> String {
        format!("//root@127.0.0.1:{}/{DATABASE}", self.port)
    }

    /// Lets it live as long as the test process.
    fn keep(self) -> String {
        let address = self.address();
        // What it wrote is removed by the next run.
        std::mem::forget(self);
        address
    }

    /// The server speaks first, and not before its start-up file was run.
    fn answers(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if self.child.lock().unwrap().try_wait().unwrap().is_some() {
                return false;
            }
            if let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.port)) {
                use std::io::Read;
                stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                // The file is there once the port is its own: somebody else's server may answer on it otherwise.
                let is_ours = self.folder.path().join(PID_FILE).exists();
                if stream.read(&mut [0; 5]).is_ok_and(|read| read == 5) && is_ours {
                    return true;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Ends it without warning.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it again on the same port.
    pub(crate) fn restart(&self) {
        *self.child.lock().unwrap() = spawn(self.port, &self.folder, &self.options);
        assert!(self.answers(Duration::from_secs(60)), "the server cannot be started again");
    }

    /// Makes it stand still, or go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap().id();
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A folder with an empty server. Making one takes seconds, so it is made once and copied from then on, also by later
/// runs. What runs that ended left behind is removed.
fn folder_with_an_empty_server() -> TempDir {
    static EMPTY: LazyLock<PathBuf> = LazyLock::new(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        for left in std::fs::read_dir(place).unwrap().flatten() {
            let name = left.file_name().into_string().unwrap_or_default();
            let process = name.strip_prefix("mariadb-of-").and_then(|rest| rest.split('-').next());
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                let _ = std::fs::remove_dir_all(left.path());
            }
        }
        let empty = place.join("mariadb-empty");
        if !empty.exists() {
            let folder = own_folder();
            make_a_server(folder.path());
            // Another process may be faster.
            let _ = std::fs::rename(folder.path(), &empty);
        }
        empty
    });
    let folder = own_folder();
    let copied = Command::new("cp").arg("-a").arg(EMPTY.join(".")).arg(folder.path()).status();
    assert!(copied.unwrap().success());
    folder
}

fn own_folder() -> TempDir {
    let prefix = format!("mariadb-of-{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn make_a_server(folder: &Path) {
    let made = Command::new("mariadb-install-db")
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root", SMALL])
        .arg(format!("--datadir={}/data", folder.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the package mariadb-server is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    std::fs::write(folder.join("init.sql"), format!("CREATE DATABASE IF NOT EXISTS {DATABASE};\n")).unwrap();
}

fn spawn(port: u16, folder: &TempDir, options: &[String]) -> Child {
    // One that was killed leaves it behind.
    let _ = std::fs::remove_file(folder.path().join(PID_FILE));
    let folder = folder.path().display();
    let mut command = Command::new("setpriv");
    // The kernel ends the server when the thread that started it ends, which it does with the process alone.
    command.args(["--pdeathsig", "KILL", "mariadbd", "--no-defaults", "--user=root", "--bind-address=127.0.0.1"]);
    command.arg(format!("--datadir={folder}/data")).arg(format!("--init-file={folder}/init.sql"));
    command.arg(format!("--socket={folder}/my.sock")).arg(format!("--pid-file={folder}/{PID_FILE}"));
    command.arg(format!("--port={port}")).args(["--max-connections=1000", "--skip-name-resolve", SMALL]);
    // The disk is not waited for: what tests end is the server, never the machine.
    command.arg("--innodb-flush-log-at-trx-commit=2").args(options);
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

/// A connection that has nothing to do with the engine.
pub(crate) async fn plain(address: &str) -> Conn {
    let url = format!("mysql:{address}");
    let options = OptsBuilder::from_opts(mysql_async::Opts::from_url(&url).unwrap()).prefer_socket(false);
    Conn::new(options).await.unwrap()
}

/// Has a server carry out a statement, and says what it found.
pub(crate) async fn tell(address: &str, statement: &str) -> Vec<Row> {
    let mut connection = plain(address).await;
    let rows = connection.query(statement).await.unwrap();
    connection.disconnect().await.unwrap();
    rows
}

/// One number that a statement finds.
pub(crate) async fn number(address: &str, statement: &str) -> i64 {
    tell(address, statement).await[0].get(0).unwrap()
}

/// Both sides of a client, without the client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) keeper: Arc<dyn Engine>,
    pub(crate) front: Arc<dyn Engine>,
}

pub(crate) async fn client(address: &str, tables: &str) -> Client {
    let mysql = Mysql::at(address).unwrap().tables(tables).unwrap();
    Client { keeper: mysql.connect(Side::Keeper).await.unwrap(), front: mysql.connect(Side::Front).await.unwrap() }
}

/// Tables that no other test uses.
pub(crate) fn tables() -> String {
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
