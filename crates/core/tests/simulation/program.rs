//! What one task of a client does: a few random steps.

use std::rc::Rc;
use std::time::Duration;

use lockhouse_core::{Error, Guard, Happened, Kind, Locks, Owner, Result, WriteGuard};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::oracle::Believed;
use super::world::{TTL, World};

/// The locks of a world. Each name is one kind of lock.
pub(crate) const MUTEX: &str = "mutex";
pub(crate) const SHARED: &str = "shared";
pub(crate) const PERMITS: &str = "permits";
const PERMITS_IN_ALL: u32 = 3;

/// A guard that may still be downgraded.
enum Held {
    Plain(Guard),
    Writer(WriteGuard),
}

pub(crate) struct Program {
    pub(crate) world: Rc<World>,
    pub(crate) locks: Locks,
    pub(crate) random: SmallRng,
    pub(crate) owner: Option<Owner>,
}

impl Program {
    pub(crate) fn new(world: &Rc<World>, locks: &Locks, seed: u64, owner: Option<Owner>) -> Self {
        Self { world: Rc::clone(world), locks: locks.clone(), random: SmallRng::seed_from_u64(seed), owner }
    }

    pub(crate) async fn run(mut self) {
        for _ in 0..self.random.random_range(1..4) {
            self.pause(TTL / 4).await;
            self.step().await;
        }
    }

    async fn pause(&mut self, longest: Duration) {
        tokio::time::sleep(longest.mul_f64(self.random.random())).await;
    }

    async fn step(&mut self) {
        let world = Rc::clone(&self.world);
        let (name, weight, capacity) = self.choose();
        let patience = self.random.random_range(0..4);
        let wait = TTL.mul_f64(self.random.random_range(0.0..6.0));
        let cancel = self.random.random_bool(0.15).then(|| TTL.mul_f64(self.random.random()));
        let lock = self.lock(name, weight, patience == 0, (patience == 1).then_some(wait));
        let answer = match cancel {
            None => lock.await,
            Some(after) => match tokio::time::timeout(after, lock).await {
                Ok(answer) => answer,
                Err(_) => return world.count(|tally| tally.cancelled += 1),
            },
        };
        match answer {
            Ok(Some(Held::Plain(guard))) => self.hold(name, guard, weight, capacity).await,
            Ok(Some(Held::Writer(guard))) => self.write(name, guard, capacity).await,
            Ok(None) => world.count(|tally| tally.refusals += 1),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) {
        match error.kind() {
            Kind::Busy => self.world.count(|tally| tally.timeouts += 1),
            Kind::Unreachable | Kind::TimedOut | Kind::Lost => self.world.count(|tally| tally.errors += 1),
            _ => panic!("an error that nothing in this world explains: {error}"),
        }
    }

    fn choose(&mut self) -> (&'static str, u32, u32) {
        match self.random.random_range(0..if self.world.quorum { 2 } else { 3 }) {
            0 => (MUTEX, 1, 1),
            1 if self.random.random_bool(0.4) => (SHARED, u32::MAX, u32::MAX),
            1 => (SHARED, 1, u32::MAX),
            _ => (PERMITS, self.random.random_range(1..=PERMITS_IN_ALL), PERMITS_IN_ALL),
        }
    }

    /// Locks as any user would.
    fn lock(
        &mut self,
        name: &'static str,
        weight: u32,
        try_only: bool,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<Option<Held>>> + 'static {
        let locks = self.locks.clone();
        let wait = wait.unwrap_or(Duration::from_secs(100_000));
        let priority = if self.world.quorum { 0 } else { self.random.random_range(0..2) };
        let barging = self.random.random_bool(0.1);
        let owner = self.owner.clone().filter(|_| name == MUTEX);
        async move {
            Ok(match name {
                MUTEX => {
                    let mutex = locks.mutex(name).ttl(TTL).wait(wait).priority(priority);
                    let mutex = if barging { mutex.barging() } else { mutex };
                    let mutex = if let Some(owner) = &owner { mutex.owner(owner) } else { mutex };
                    if try_only {
                        mutex.try_lock().await?.map(Held::Plain)
                    } else {
                        Some(Held::Plain(mutex.lock().await?))
                    }
                }
                SHARED => {
                    let lock = locks.rwlock(name).ttl(TTL).wait(wait).priority(priority);
                    match (weight, try_only) {
                        (1, true) => lock.try_read().await?.map(Held::Plain),
                        (1, false) => Some(Held::Plain(lock.read().await?)),
                        (_, true) => lock.try_write().await?.map(Held::Writer),
                        (_, false) => Some(Held::Writer(lock.write().await?)),
                    }
                }
                _ => {
                    let semaphore = locks.semaphore(name, PERMITS_IN_ALL).ttl(TTL).wait(wait).priority(priority);
                    if try_only {
                        semaphore.try_acquire(weight).await?.map(Held::Plain)
                    } else {
                        Some(Held::Plain(semaphore.acquire(weight).await?))
                    }
                }
            })
        }
    }

    /// Holds for a while, and then lets go in one way or another.
    async fn hold(&mut self, name: &'static str, guard: Guard, weight: u32, capacity: u32) {
        let world = Rc::clone(&self.world);
        world.count(|tally| tally.grants += 1);
        world.oracle.note(guard.token());
        // Guards of one owner share a hold: for the oracle it is one.
        let owner = self.owner.is_some() && name == MUTEX;
        let hold = if owner { None } else { Some(world.oracle.granted(name, guard, weight, capacity)) };
        let Some(hold) = hold else { return self.pause(TTL).await };
        let _crash = world.on_crash(&hold);
        if name == MUTEX && self.random.random_bool(0.3) {
            self.increment(&hold).await;
        }
        let work = TTL.mul_f64(self.random.random_range(0.0..2.5));
        tokio::select! {
            biased;
            loss = hold.guard.lost() => {
                world.count(|tally| tally.losses += 1);
                world.oracle.note(loss as u64);
                assert!(hold.guard.check().is_err(), "a lost guard passes its check");
            }
            () = tokio::time::sleep(work) => {}
        }
        let guard = world.oracle.lets_go(name, hold);
        if self.random.random_bool(0.5)
            && let Err(error) = guard.release().await
        {
            self.failed(&error);
        }
    }

    /// Writes, and sometimes goes on as a reader.
    async fn write(&mut self, name: &'static str, guard: WriteGuard, capacity: u32) {
        if self.random.random_bool(0.5) {
            return self.hold(name, guard.into_guard(), capacity, capacity).await;
        }
        self.world.count(|tally| tally.grants += 1);
        match guard.downgrade().await {
            Ok(guard) => {
                self.world.count(|tally| tally.downgrades += 1);
                // From here readers may be beside us, and others may have seen newer tokens.
                let loss = tokio::time::timeout(TTL, guard.lost()).await;
                self.world.oracle.note(u64::from(loss.is_ok()));
            }
            Err((_, error)) => self.failed(&error),
        }
    }

    /// Adds one to the cell under the lock, fenced by its token.
    async fn increment(&mut self, hold: &Believed) {
        let add = |value: &[u8]| {
            let old = value.try_into().map_or(0, u64::from_le_bytes);
            (old + 1).to_le_bytes().to_vec()
        };
        if self.world.quorum {
            return;
        }
        // Unknown until it is known: a crash may come in between.
        self.world.count(|tally| tally.unknown_increments += 1);
        let answer = self.locks.cell("counter").fenced(hold.guard.token()).update(add).await;
        self.world.count(|tally| match answer {
            Ok(_) => {
                tally.unknown_increments -= 1;
                tally.increments += 1;
            }
            Err(error) if error.may_have_happened() == Happened::No => tally.unknown_increments -= 1,
            Err(_) => {}
        });
    }
}
