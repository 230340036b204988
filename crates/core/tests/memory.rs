//! The memory engine faces the conformance suite.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Clock, Connector, Engine, Guarantees, Locks, Memory, Name};
use lockhouse_testkit::{Saboteur, Subject, alone, async_trait};

#[derive(Debug, Default)]
struct InMemory(Memory);

#[async_trait]
impl Subject for InMemory {
    fn guarantees(&self) -> Guarantees {
        self.0.guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.0.clone())
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }
}

#[async_trait]
impl Saboteur for InMemory {
    async fn remove(&self, name: &Name) {
        self.0.sabotage(name);
    }
}

lockhouse_testkit::conformance!(InMemory::default());

/// What this process has of one line of `/proc/self/status`, in kB.
fn status(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel tells it");
    line.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").trim().parse().expect("a number")
}

/// The processor time that this process has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How many threads of this process have that name, as far as the kernel keeps it.
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    // A thread that ended in between has no name any more.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| name.starts_with(found.trim())).count()
}

#[tokio::test]
async fn a_hundred_thousand_held_locks_cost_one_thread_and_little_else() {
    const LOCKS: usize = 100_000;
    const LEASE: Duration = Duration::from_secs(9);
    if !alone("a_hundred_thousand_held_locks_cost_one_thread_and_little_else").await {
        return;
    }
    let locks = Locks::new(Memory::new()).await.unwrap();
    let mut guards = Vec::with_capacity(LOCKS);
    for number in 0..LOCKS {
        guards.push(locks.mutex(format!("held/{number}")).ttl(LEASE).lock().await.unwrap());
    }
    assert_eq!(threads_named("lockhouse-keeper"), 1);
    // Longer than a third of the lease: every lock is renewed at least once.
    let (before, started) = (processor_time(), Clock::Boot.now());
    tokio::time::sleep(LEASE / 2).await;
    let (spent, passed) = (processor_time() - before, Clock::Boot.now().since(started));
    assert!(spent < passed / 2, "{LOCKS} held locks take {spent:?} of {passed:?}");
    let resident = status("VmRSS");
    assert!(resident < 500_000, "{LOCKS} held locks take {resident} kB");
    // And once more, past the first lease: all of them are kept.
    tokio::time::sleep(LEASE * 3 / 4).await;
    guards.iter().for_each(|guard| guard.check().unwrap());
    drop(guards);
    locks.close(Duration::from_secs(60)).await.unwrap();
}
