//! Simulation: the client on memory engines behind faults, on paused time, from a seed.
//!
//! Random programs of locks, reads, writes, permits, releases, drops, crashes and pauses run against one engine or a
//! quorum, and oracles watch: no two valid holds conflict, tokens grow, nobody waits for ever once faults stop, nothing
//! is left over. The same seed gives the same run, so a failure can be replayed.

mod simulation {
    pub(crate) mod oracle;
    pub(crate) mod program;
    pub(crate) mod world;
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use simulation::world::{Tally, run};

/// How many schedules the test runs, and how many seeds `replay` does.
fn from_environment(name: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test is told its seed by the command that replays it")]
    let value = std::env::var(name);
    value.ok().map_or(default, |value| value.parse().expect("a number"))
}

fn run_or_say_how_to_replay(seed: u64) -> Tally {
    catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().cloned();
        let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned())).unwrap_or_default();
        panic!(
            "seed {seed}: {why}\nreplay it with: \
             LOCKHOUSE_SEED={seed} cargo test -p lockhouse-core --test simulation replay -- --nocapture"
        )
    })
}

#[test]
fn a_hundred_thousand_schedules() {
    let schedules = from_environment("LOCKHOUSE_SCHEDULES", 100_000);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let tally = std::thread::scope(|scope| {
        let work = || {
            let mut tally = Tally::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= schedules {
                    return tally;
                }
                tally.add(&run_or_say_how_to_replay(seed));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().fold(Tally::default(), |mut all, worker| {
            match worker.join() {
                Ok(tally) => all.add(&tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            all
        })
    });
    eprintln!("{schedules} schedules: {tally:?}");
    // A simulation in which nothing happens shows nothing.
    assert!(tally.grants > schedules && tally.losses > 0 && tally.crashes > 0 && tally.refusals > 0, "{tally:?}");
    assert!(tally.timeouts > 0 && tally.errors > 0 && tally.cancelled > 0 && tally.downgrades > 0, "{tally:?}");
    assert!(tally.increments > 0, "{tally:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..200 {
        let (first, second) = (run_or_say_how_to_replay(seed), run_or_say_how_to_replay(seed));
        assert_eq!(first, second, "seed {seed} ran in two ways");
    }
}

#[test]
fn replay() {
    let seed = from_environment("LOCKHOUSE_SEED", 0);
    eprintln!("seed {seed}: {:?}", run_or_say_how_to_replay(seed));
}
