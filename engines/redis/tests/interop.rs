//! redis-py's `Lock` and ours on one key.
//!
//! Python's client is installed into an environment of its own below the target folder, once.

mod servers;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockhouse_core::{Line, Locks};
use lockhouse_redis::Redis;
use servers::{prefix, settle, shared, tell_words};

/// The Python of the private environment, with its client of Redis.
fn python() -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("redis-py");
    let python = home.join("bin/python");
    let works = |python: &PathBuf| {
        Command::new(python).args(["-c", "import redis"]).output().is_ok_and(|output| output.status.success())
    };
    if !works(&python) {
        let run = |command: &mut Command| {
            let output = command.output().expect("python3 is installed");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run(Command::new("python3").args(["-m", "venv"]).arg(&home));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "redis"]));
        assert!(works(&python), "redis-py can be used");
    }
    python
}

/// A program in Python that does what it is told, a word a line, and answers each.
#[derive(Debug)]
struct Peer {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(address: &str, key: &str) -> Self {
        let mut child = Command::new(python())
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peer.py"))
            .args([&format!("redis:{address}"), key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{word}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn ask(&mut self, word: &str) -> String {
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

async fn ours(address: &str, prefix: &str) -> Locks {
    settle(address, prefix);
    Locks::new(Redis::at(address).unwrap().prefix(prefix).unwrap()).await.unwrap()
}

async fn line(locks: &Locks) -> Option<Line> {
    locks.line("a").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refuses_while_the_other_holds_and_neither_releases_the_others() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let mut peer = Peer::start(&address, &format!("{prefix}a"));

    let guard = locks.mutex("a").lock().await.unwrap();
    assert_eq!(peer.ask("try"), "refused");
    // What it would do at the end of a block that it never entered.
    assert_eq!(peer.ask("release"), "not mine");
    guard.check().unwrap();
    assert_eq!(line(&locks).await.unwrap().holders().count(), 1);
    guard.release().await.unwrap();

    assert_eq!(peer.ask("try"), "granted");
    assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
    let seen = line(&locks).await.expect("a stranger's lock is shown");
    assert_eq!(seen.holders().next().unwrap().owner, "another program");
    // A claim of ours that is withdrawn leaves the stranger's lock alone.
    assert!(locks.mutex("a").wait(Duration::from_millis(100)).lock().await.is_err());
    assert_eq!(peer.ask("release"), "released");
    locks.mutex("a").try_lock().await.unwrap().expect("it is free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_gets_in_soon_after_a_stranger_lets_go_or_its_lock_ends() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let mut peer = Peer::start(&address, &format!("{prefix}a"));
    for lets_go in [true, false] {
        // The stranger's lock ends by itself after two seconds.
        assert_eq!(peer.ask("try"), "granted");
        let mutex = locks.mutex("a");
        let waiter = mutex.lock();
        tokio::pin!(waiter);
        assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiter).await.is_err(), "the stranger holds it");
        if lets_go {
            assert_eq!(peer.ask("release"), "released");
        }
        let guard = tokio::time::timeout(Duration::from_secs(5), waiter).await.expect("in time").unwrap();
        assert_eq!(peer.ask("try"), "refused");
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_lock_can_be_evicted() {
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let mut peer = Peer::start(&address, &format!("{prefix}a"));
    assert_eq!(peer.ask("try"), "granted");
    let id = line(&locks).await.unwrap().places[0].id;
    assert!(locks.evict("a", id).await.unwrap());
    let guard = locks.mutex("a").try_lock().await.unwrap().expect("it ended at once");
    assert_eq!(peer.ask("release"), "not mine");
    guard.check().unwrap();
}

/// Two times two hundred increments of a counter that is read, and written a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_increment_is_lost_between_both() {
    const TIMES: u32 = 200;
    let (address, prefix) = (shared(), prefix());
    let locks = ours(&address, &prefix).await;
    let counter = format!("{prefix}counter");
    tell_words(&address, &["SET", &counter, "0"]);
    let mut peer = Peer::start(&address, &format!("{prefix}a"));
    peer.tell(&format!("count {counter} {TIMES}"));
    for _ in 0..TIMES {
        let guard = locks.mutex("a").lock().await.unwrap();
        let redis::Value::BulkString(seen) = tell_words(&address, &["GET", &counter]) else { panic!("it is there") };
        let seen: u32 = String::from_utf8(seen).unwrap().parse().unwrap();
        tell_words(&address, &["SET", &counter, &(seen + 1).to_string()]);
        guard.release().await.unwrap();
        // A stranger looks at the key now and then and hears of nothing: who does not pause leaves it no chance.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(peer.answer(), "counted");
    assert_eq!(
        tell_words(&address, &["GET", &counter]),
        redis::Value::BulkString((2 * TIMES).to_string().into_bytes())
    );
}
