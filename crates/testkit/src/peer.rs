//! Other people's clients, in programs of their own that do what they are told.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The Python of an environment of its own in this folder, with this package of the Python index. Made once.
///
/// # Panics
/// When it cannot be made: then there is no Python 3 with venv, or no index.
pub fn python_with(package: &str, folder: &Path) -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = folder.join(format!("python-{package}"));
    let python = home.join("bin/python");
    let works = || {
        let import = format!("import {package}");
        Command::new(&python).args(["-c", &import]).output().is_ok_and(|output| output.status.success())
    };
    if !works() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&home));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]));
        assert!(works(), "{package} was installed for Python, and cannot be used");
    }
    python
}

fn run(command: &mut Command) {
    let output = command.output().expect("Python 3 is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A program that does what it is told, a line each, and answers each with a line. Ended when it is dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, answers }
    }

    /// Tells it something, without waiting for the answer.
    ///
    /// # Panics
    /// When it ended.
    pub fn tell(&mut self, word: &str) {
        let input = self.child.stdin.as_mut().expect("it was piped");
        writeln!(input, "{word}").expect("it listens");
    }

    /// Its next answer: nothing when it ended.
    ///
    /// # Panics
    /// When what it says cannot be read.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it says text");
        line.trim().to_owned()
    }

    /// Tells it something, and waits for the answer.
    pub fn ask(&mut self, word: &str) -> String {
        self.tell(word);
        self.answer()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
