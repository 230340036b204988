//! What runs in a separate process: it takes locks when it is told to, and can be killed or stopped at any time.
//!
//! It reads commands from its standard input, one a line, and answers each with a line on its standard output.

use std::collections::HashMap;
use std::future::Future;
use std::io::{BufRead, Write};
use std::pin::Pin;
use std::time::Duration;

use lockhouse_core::{Error, Guard, Locks, Result, WriteGuard, Written};
use tokio::sync::mpsc;

use crate::conformance::block_on;
use crate::stage::LONG;

/// Set for a process that is a taker: the URL of the engine.
pub(crate) const URL_VARIABLE: &str = "LOCKHOUSE_TAKER_URL";
/// Precedes every answer: the test harness writes to the same stream.
pub(crate) const MARK: &str = "taker> ";
/// Tells it to end as a program does that returns from its main function, and has closed its client.
pub(crate) const RETURN: &str = "return";

/// The entry of a separate process. Does nothing unless the suite started this process as a taker.
///
/// # Panics
/// When it is told something that it does not understand.
pub fn serve(connect: impl Fn(String) -> Pin<Box<dyn Future<Output = Locks>>>) {
    #[expect(clippy::disallowed_methods, reason = "the only word that the suite can give to a process of the harness")]
    let Ok(url) = std::env::var(URL_VARIABLE) else { return };
    let returns = block_on(async {
        let (tell, mut commands) = mpsc::unbounded_channel();
        // A thread, since nothing else can read the standard input without blocking the end of the runtime.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(|line| line.ok()) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let mut taker = Held { locks: connect(url).await, guards: HashMap::new() };
        answer("ready");
        while let Some(command) = commands.recv().await {
            if command == RETURN {
                taker.locks.close(LONG).await.expect("everything can be given back");
                return true;
            }
            match taker.obey(&command).await {
                Ok(said) => answer(&said),
                Err(error) => answer(&format!("error {:?} {error}", error.kind())),
            }
        }
        false
    });
    if !returns {
        // The suite has closed our standard input: whatever is held goes with the process.
        std::process::exit(0);
    }
}

fn answer(said: &str) {
    let mut out = std::io::stdout().lock();
    // Who cannot be heard any more has nobody left to work for.
    if writeln!(out, "{MARK}{said}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

struct Held {
    locks: Locks,
    guards: HashMap<String, Guard>,
}

impl Held {
    async fn obey(&mut self, command: &str) -> Result<String> {
        let words: Vec<&str> = command.split('\t').collect();
        match words[..] {
            ["try", name, ttl] => {
                let guard = self.locks.mutex(name).ttl(millis(ttl)).try_lock().await?;
                Ok(guard.map_or("busy".into(), |guard| self.hold(name, guard)))
            }
            ["lock", name, ttl] => {
                let guard = self.locks.mutex(name).ttl(millis(ttl)).lock().await?;
                Ok(self.hold(name, guard))
            }
            ["linger", name, ttl, at_least] => {
                let mutex = self.locks.mutex(name).ttl(millis(ttl)).at_least(millis(at_least));
                let guard = mutex.lock().await?;
                Ok(self.hold(name, guard))
            }
            ["read", name, ttl] => {
                let guard = self.locks.rwlock(name).ttl(millis(ttl)).read().await?;
                Ok(self.hold(name, guard))
            }
            ["write", name, ttl] => {
                let guard = self.locks.rwlock(name).ttl(millis(ttl)).write().await.map(WriteGuard::into_guard)?;
                Ok(self.hold(name, guard))
            }
            ["permits", name, ttl, permits, of] => {
                let semaphore = self.locks.semaphore(name, number(of)).ttl(millis(ttl));
                let guard = semaphore.acquire(number(permits)).await?;
                Ok(self.hold(name, guard))
            }
            ["release", name] => match self.guards.remove(name) {
                Some(guard) => guard.release().await.map(|release| format!("{release:?}")),
                None => Ok("no guard".into()),
            },
            ["check", name] => Ok(self.guards[name].check().map_or_else(|error| lost(&error), |()| "held".into())),
            ["cell", cell, name, value] => self.write(cell, self.guards[name].token(), value).await,
            ["increment", cell, name, ttl, times] => self.increment(cell, name, millis(ttl), number(times)).await,
            _ => panic!("a taker does not understand {command:?}"),
        }
    }

    fn hold(&mut self, name: &str, guard: Guard) -> String {
        let said = format!("granted {}", guard.token());
        self.guards.insert(name.to_owned(), guard);
        said
    }

    async fn write(&self, cell: &str, token: u64, value: &str) -> Result<String> {
        Ok(match self.locks.cell(cell).fenced(token).write(value).await? {
            Written::Yes { .. } => "written".into(),
            other => format!("{other:?}"),
        })
    }

    /// Reads, sleeps and writes a number in a file under the lock, as a program with nothing but the lock would.
    async fn increment(&self, file: &str, name: &str, ttl: Duration, times: u32) -> Result<String> {
        let mutex = self.locks.mutex(name).ttl(ttl);
        for _ in 0..times {
            let guard = mutex.lock().await?;
            increment_file(file, Duration::from_millis(1)).await;
            guard.check()?;
            guard.release().await?;
        }
        Ok("done".into())
    }
}

/// Adds one to the number in a file, with a pause between reading and writing in which another could come between.
pub(crate) async fn increment_file(file: &str, pause: Duration) {
    let number: u64 = std::fs::read_to_string(file).expect("the file is there").trim().parse().expect("a number");
    tokio::time::sleep(pause).await;
    std::fs::write(file, (number + 1).to_string()).expect("the file can be written");
}

fn lost(error: &Error) -> String {
    format!("lost: {error}")
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(u64::from(number(text)))
}

fn number(text: &str) -> u32 {
    text.parse().expect("the suite sends numbers")
}
