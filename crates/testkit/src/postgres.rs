//! PostgreSQL servers of the tests' own: as [`Program`]s, with what PostgreSQL needs to be started by anybody.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::authority::Authority;
use crate::ports::free_port;
use crate::servers::Program;

/// The longest that it takes to start.
const STARTS: Duration = Duration::from_secs(20);
/// What tests want otherwise than other people: many clients, and no waiting for a disk.
const FOR_TESTS: &[&str] = &["max_connections=500", "fsync=off"];

/// A PostgreSQL server. Ended when it is dropped, and at the latest when the test process ends.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    program: Program,
    _folder: TempDir,
}

impl Postgres {
    /// Starts a server with these settings on a free port, and waits until it answers.
    ///
    /// # Panics
    /// When the package `postgresql` is not installed.
    #[must_use]
    pub fn start(settings: &[&str]) -> Self {
        Self::start_in(settings, &[])
    }

    /// The same with variables of its environment.
    ///
    /// # Panics
    /// When the package `postgresql` is not installed.
    #[must_use]
    pub fn start_in(settings: &[&str], variables: &[(&'static str, String)]) -> Self {
        Self::start_on(prepared(), &[FOR_TESTS, settings].concat(), variables)
    }

    /// A server with the settings that everybody has, to measure it.
    ///
    /// # Panics
    /// When the package `postgresql` is not installed.
    #[must_use]
    pub fn start_plain() -> Self {
        Self::start_on(prepared(), &[], &[])
    }

    /// A server that speaks TLS to whoever asks for it.
    ///
    /// # Panics
    /// When the package `postgresql` is not installed.
    #[must_use]
    pub fn start_encrypted(authority: &Authority) -> Self {
        let folder = prepared();
        for name in ["server.crt", "server.key"] {
            let file = folder.path().join("data").join(name);
            std::fs::copy(authority.path(name), &file).expect("it is there");
            // The server takes no key that others can read.
            run(Command::new("chmod").arg("600").arg(&file));
            belongs_to_server(&file);
        }
        Self::start_on(folder, &[FOR_TESTS, &["ssl=on"]].concat(), &[])
    }

    /// A replica of this one.
    ///
    /// # Panics
    /// When it cannot be copied.
    #[must_use]
    pub fn start_replica(&self) -> Self {
        let folder = server_folder();
        let mut copy = as_server("pg_basebackup");
        copy.arg("-D").arg(folder.path().join("data")).args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        run(copy.args(["-U", "postgres", "-R", "--no-sync", "-c", "fast", "-X", "stream"]));
        Self::start_on(folder, FOR_TESTS, &[])
    }

    fn start_on(folder: TempDir, settings: &[&str], variables: &[(&'static str, String)]) -> Self {
        let (port, path, variables) = (free_port(), folder.path().to_owned(), variables.to_vec());
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let program = Program::start(move || {
            let mut command = as_server("postgres");
            command.arg("-D").arg(path.join("data")).args([
                "-p",
                &port.to_string(),
                "-c",
                "listen_addresses=127.0.0.1",
            ]);
            command.arg("-c").arg(format!("unix_socket_directories={}", path.display()));
            for setting in &settings {
                command.args(["-c", setting]);
            }
            command.envs(variables.iter().cloned());
            command
        });
        let server = Self { port, program, _folder: folder };
        assert!(server.answers(), "the server cannot be started");
        server
    }

    /// Where it listens on this machine.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What stands in a URL behind its scheme.
    #[must_use]
    pub fn address(&self) -> String {
        format!("//postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Lets it live as long as the test process. Gives its address.
    #[must_use]
    pub fn keep(self) -> String {
        let address = self.address();
        std::mem::forget(self);
        address
    }

    /// Ends it without warning. PostgreSQL's immediate shutdown: nothing is written any more, and the next start
    /// recovers from the log, as after a crash.
    pub fn kill(&self) {
        self.program.signal(Signal::QUIT);
        self.program.wait();
    }

    /// Starts it again on the same port.
    ///
    /// # Panics
    /// When it does not come back.
    pub fn restart(&self) {
        self.program.restart();
        assert!(self.answers(), "the server cannot be started again");
    }

    /// Makes it stand still: first the one that starts others, then all of those.
    pub fn pause(&self) {
        self.program.signal(Signal::STOP);
        self.signal_children(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal_children(Signal::CONT);
        self.program.signal(Signal::CONT);
    }

    fn signal_children(&self, signal: Signal) {
        let id = self.program.id().as_raw_nonzero();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)) {
            // It may have ended by itself.
            let _ = kill_process(child, signal);
        }
    }

    fn answers(&self) -> bool {
        self.program.answers(STARTS, || {
            let mut asking = as_server("pg_isready");
            asking.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            asking.status().is_ok_and(|status| status.success())
        })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.resume();
        self.kill();
    }
}

/// A PgBouncer before a server. Ends when it is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    /// What no test wants otherwise.
    settings: String,
    program: Program,
    folder: TempDir,
}

impl PgBouncer {
    /// Starts one with these settings, such as `pool_mode=transaction`, and waits until it listens.
    ///
    /// # Panics
    /// When its package is not installed.
    #[must_use]
    pub fn start(server: &Postgres, settings: &[&str]) -> Self {
        let folder = server_folder();
        let (port, users, config) = (free_port(), folder.path().join("users"), folder.path().join("config"));
        std::fs::write(&users, "\"postgres\" \"\"\n").expect("the folder is ours");
        let always = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             auth_type = trust\nauth_file = {}\nunix_socket_dir =\n",
            server.port,
            users.display()
        );
        configure(&folder, &always, settings);
        let program = Program::start(move || {
            let mut command = as_server("pgbouncer");
            command.arg(&config);
            command
        });
        let answers = program.answers(STARTS, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(answers, "pgbouncer cannot be started: see whether its package is installed");
        Self { port, settings: always, program, folder }
    }

    /// Gives it other settings while it runs. It takes a moment to read them.
    pub fn change(&self, settings: &[&str]) {
        configure(&self.folder, &self.settings, settings);
        self.program.signal(Signal::HUP);
    }

    /// What stands in a URL behind its scheme.
    #[must_use]
    pub fn address(&self) -> String {
        format!("//postgres@127.0.0.1:{}/postgres", self.port)
    }
}

fn configure(folder: &TempDir, always: &str, settings: &[&str]) {
    std::fs::write(folder.path().join("config"), format!("{always}{}\n", settings.join("\n"))).expect("it is ours");
}

/// A folder that the account of the servers may use. What killed test processes have left of theirs is cleared away.
fn server_folder() -> TempDir {
    const PREFIX: &str = "lockhouse-postgres-";
    for old in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let ours = old.file_name().to_string_lossy().starts_with(PREFIX);
        let maker = std::fs::read_to_string(old.path().join("maker")).unwrap_or_default();
        if ours && !maker.is_empty() && !Path::new(&format!("/proc/{maker}")).exists() {
            let _ = std::fs::remove_dir_all(old.path());
        }
    }
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir().expect("there is a temporary folder");
    std::fs::write(folder.path().join("maker"), std::process::id().to_string()).expect("the folder is ours");
    belongs_to_server(folder.path());
    folder
}

/// The folder of a server that was never started.
fn prepared() -> TempDir {
    let folder = server_folder();
    let mut prepare = as_server("initdb");
    prepare.arg("-D").arg(folder.path().join("data")).args(["-A", "trust", "-U", "postgres", "--no-sync"]);
    run(prepare.args(["--no-locale", "--encoding=UTF8"]));
    folder
}

fn belongs_to_server(path: &Path) {
    if geteuid().is_root() {
        run(Command::new("chown").arg("postgres:postgres").arg(path));
    }
}

/// PostgreSQL refuses to run as root, and Debian does not have its programs on the path.
fn as_server(program: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(program)).collect();
    found.retain(|path| path.exists());
    found.sort();
    let mut command = Command::new("setpriv");
    // The kernel ends it, by a fast shutdown, when the thread that started it ends: with the process and not before.
    command.args(["--pdeathsig", "INT"]);
    if geteuid().is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(found.pop().unwrap_or_else(|| PathBuf::from(program)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let done = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.success(), "{command:?} failed: see whether the package postgresql is installed");
}
