//! One of the processes: eight tasks that take one lock in turns, with lockhouse or with rslock.

use std::time::Duration;

use rslock::LockManager;
use rustix::time::{ClockId, clock_gettime};

use crate::{Outcome, TASKS};

const LEASE: Duration = Duration::from_secs(10);
/// How long a turn lasts.
const TURN: Duration = Duration::from_millis(1);

/// When a turn was asked for, granted and released.
type Turn = [u64; 3];

/// Says `ready`, begins when it is told to, and says of each turn when it was.
pub(crate) async fn work(who: &str, url: &str, key: &str, seconds: u64, pause: u64) -> Outcome<()> {
    let until = |begun: u64| begun + seconds * 1_000_000_000;
    let mut all = tokio::task::JoinSet::new();
    if who == "lockhouse" {
        let locks = lockhouse::connect(url).await?;
        let begun = told()?;
        for _ in 0..TASKS {
            all.spawn(lockhouses(locks.clone(), key.to_owned(), until(begun)));
        }
    } else {
        let mut manager = LockManager::new(vec![url.to_owned()]);
        if pause > 0 {
            manager.set_retry(u32::MAX, Duration::from_millis(pause));
        }
        let begun = told()?;
        for _ in 0..TASKS {
            all.spawn(rslocks(manager.clone(), key.to_owned(), until(begun)));
        }
    }
    let mut turns: Vec<Turn> = Vec::new();
    while let Some(done) = all.join_next().await {
        turns.extend(done??);
    }
    for [asked, granted, released] in turns {
        println!("{asked} {granted} {released}");
    }
    Ok(())
}

/// Waits for the word to begin, and says when that is.
fn told() -> Outcome<u64> {
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(now())
}

/// The clock that all processes of a machine share, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

async fn lockhouses(locks: lockhouse::Locks, name: String, until: u64) -> Outcome<Vec<Turn>> {
    let mutex = locks.mutex(name).ttl(LEASE);
    let mut turns = Vec::new();
    while now() < until {
        let asked = now();
        let guard = mutex.lock().await?;
        let granted = now();
        tokio::time::sleep(TURN).await;
        let released = now();
        guard.release().await?;
        turns.push([asked, granted, released]);
    }
    Ok(turns)
}

async fn rslocks(manager: LockManager, key: String, until: u64) -> Outcome<Vec<Turn>> {
    let mut turns = Vec::new();
    while now() < until {
        let asked = now();
        let lock = manager.acquire_no_guard(key.as_bytes(), LEASE).await?;
        let granted = now();
        tokio::time::sleep(TURN).await;
        let released = now();
        manager.unlock(&lock).await;
        turns.push([asked, granted, released]);
    }
    Ok(turns)
}
