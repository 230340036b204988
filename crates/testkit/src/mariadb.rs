//! MariaDB servers of the tests' own: as [`Program`]s, with what MariaDB needs to be started by anybody.

use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::ports::free_port;
use crate::servers::{Program, bound};

/// The longest that it takes to start.
const STARTS: Duration = Duration::from_secs(60);
/// The database that it has.
const DATABASE: &str = "lockhouse";
/// Its log, which is copied with it.
const SMALL: &str = "--innodb-log-file-size=8M";
/// The beginning of its folder's name.
const FOLDER: &str = "lockhouse-mariadb-of-";

/// A MariaDB server. Ended when it is dropped, and at the latest when the test process ends.
#[derive(Debug)]
pub struct MariaDb {
    port: u16,
    program: Program,
    _folder: TempDir,
}

impl MariaDb {
    /// Starts a server with these options on a free port, and waits until it answers.
    ///
    /// # Panics
    /// When the package `mariadb-server` is not installed.
    #[must_use]
    pub fn start(options: &[&str]) -> Self {
        Self::start_in(options, &[])
    }

    /// The same with variables of its environment.
    ///
    /// # Panics
    /// When the package `mariadb-server` is not installed.
    #[must_use]
    pub fn start_in(options: &[&str], variables: &[(&'static str, String)]) -> Self {
        let (port, folder, variables) = (free_port(), a_copy(), variables.to_vec());
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let path = folder.path().display().to_string();
        let program = Program::start(move || {
            let mut command = bound("mariadbd");
            command.args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--skip-name-resolve", SMALL]);
            command.arg(format!("--datadir={path}/data")).arg(format!("--init-file={path}/init.sql"));
            command.arg(format!("--socket={path}/my.sock")).arg(format!("--pid-file={path}/my.pid"));
            // One that starts clears away what it finds there, also what belongs to another.
            command.arg(format!("--tmpdir={path}"));
            // The disk is not waited for: what tests end is the server, never the machine.
            command.args(["--max-connections=1000", "--innodb-flush-log-at-trx-commit=2"]);
            command.arg(format!("--port={port}")).args(&options).envs(variables.iter().cloned());
            command
        });
        let server = Self { port, program, _folder: folder };
        assert!(server.answers(), "mariadbd cannot be started: see whether the package mariadb-server is installed");
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
        format!("//root@127.0.0.1:{}/{DATABASE}", self.port)
    }

    /// Lets it live as long as the test process. Gives its address.
    #[must_use]
    pub fn keep(self) -> String {
        let address = self.address();
        std::mem::forget(self);
        address
    }

    /// Ends it without warning.
    pub fn kill(&self) {
        self.program.kill();
    }

    /// Starts it again on the same port.
    ///
    /// # Panics
    /// When it does not come back.
    pub fn restart(&self) {
        self.program.restart();
        assert!(self.answers(), "the server cannot be started again");
    }

    /// Makes it stand still, or go on.
    pub fn signal(&self, signal: Signal) {
        self.program.signal(signal);
    }

    /// The server speaks first, and not before its start-up file was run.
    fn answers(&self) -> bool {
        self.program.answers(STARTS, || {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
            let limited = stream.set_read_timeout(Some(Duration::from_secs(5)));
            limited.and_then(|()| stream.read_exact(&mut [0; 5])).is_ok()
        })
    }
}

/// A folder with an empty server. Making one takes seconds, so it is made once, beside the test program, and copied
/// from then on. What test processes that ended have left of theirs is cleared away.
fn a_copy() -> TempDir {
    static EMPTY: LazyLock<PathBuf> = LazyLock::new(|| {
        for left in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            let name = left.file_name().to_string_lossy().into_owned();
            let maker = name.strip_prefix(FOLDER).and_then(|rest| rest.split('-').next());
            if maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists()) {
                let _ = std::fs::remove_dir_all(left.path());
            }
        }
        let program = std::env::current_exe().expect("a program knows where it is");
        let empty = program.with_file_name("mariadb-empty");
        if !empty.exists() {
            let place = program.parent().expect("a program is in a folder");
            let folder = TempDir::with_prefix_in("mariadb-", place).expect("the folder is cargo's");
            make(folder.path());
            // Another process may be faster.
            let _ = std::fs::rename(folder.path(), &empty);
        }
        empty
    });
    let prefix = format!("{FOLDER}{}-", std::process::id());
    let folder = TempDir::with_prefix(prefix).expect("there is a temporary folder");
    let copied = Command::new("cp").arg("-a").arg(EMPTY.join(".")).arg(folder.path()).status();
    assert!(copied.is_ok_and(|copied| copied.success()), "an empty server cannot be copied");
    folder
}

fn make(folder: &Path) {
    let made = Command::new("mariadb-install-db")
        .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root", SMALL])
        .arg(format!("--datadir={}/data", folder.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the package mariadb-server is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    let database = format!("CREATE DATABASE IF NOT EXISTS {DATABASE};\n");
    std::fs::write(folder.join("init.sql"), database).expect("the folder is ours");
}
