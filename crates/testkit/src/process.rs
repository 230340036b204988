//! A separate process, as the suite sees it.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::stage::LONG;
use crate::taker::{MARK, RETURN, URL_VARIABLE};

/// A separate process that takes locks when it is told to. Killed when it is dropped.
#[derive(Debug)]
pub struct Taker {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Taker {
    /// Starts this test program once more, as a taker and nothing else.
    pub(crate) async fn start(entry: &str, url: &str) -> Self {
        let program = std::env::current_exe().expect("a program knows where it is");
        let mut command = Command::new(program);
        command.args([entry, "--exact", "--nocapture", "--test-threads=1"]).env(URL_VARIABLE, url);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the test program can be started again");
        let commands = child.stdin.take().expect("it was piped");
        let answers = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        let mut taker = Self { child, commands, answers };
        assert_eq!(taker.answer().await, "ready");
        taker
    }

    /// Tells it to do something, without waiting for the answer.
    pub async fn tell(&mut self, words: &[&str]) {
        let line = format!("{}\n", words.join("\t"));
        self.commands.write_all(line.as_bytes()).await.expect("the taker listens");
    }

    /// Its next answer.
    ///
    /// # Panics
    /// When it ended or does not answer.
    pub async fn answer(&mut self) -> String {
        loop {
            let line = tokio::time::timeout(LONG, self.answers.next_line()).await;
            let line = line.expect("the taker answers in time").expect("its output can be read");
            let line = line.expect("the taker lives");
            // The test harness may have begun the line.
            if let Some((_, said)) = line.split_once(MARK) {
                return said.to_owned();
            }
        }
    }

    /// Tells it to do something and waits for the answer.
    pub async fn ask(&mut self, words: &[&str]) -> String {
        self.tell(words).await;
        self.answer().await
    }

    /// Has it take something, and says the token.
    pub async fn take(&mut self, words: &[&str]) -> u64 {
        let said = self.ask(words).await;
        token(&said)
    }

    /// Ends it as a crash would: `kill -9`. Waits until it is gone.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().await.expect("it can be waited for");
    }

    /// Makes it stand still.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it in an orderly way, but without a word to its locks.
    pub async fn end(self) {
        let Self { mut child, commands, answers } = self;
        drop(commands);
        let ended = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
        ended.expect("a taker ends when nobody talks to it").expect("it can be waited for");
        drop(answers);
    }

    /// Lets it close its client and return, and waits until it has.
    pub async fn finish(mut self) {
        self.tell(&[RETURN]).await;
        let ended = tokio::time::timeout(LONG, self.child.wait()).await;
        let status = ended.expect("a taker returns when it is told to").expect("it can be waited for");
        assert!(status.success(), "a taker could not close its client: {status}");
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(id.expect("it was not waited for"), signal).expect("it can be signalled");
    }
}

/// The token in what a taker answered.
pub(crate) fn token(said: &str) -> u64 {
    let token = said.strip_prefix("granted ").and_then(|token| token.parse().ok());
    token.unwrap_or_else(|| panic!("the taker was not granted the lock: {said}"))
}
