//! One run: engines, clients, faults, and the order of events, all from a seed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Chaos, Engine, Faults, Locks, Memory, Name, Owner, Quorum, begin_simulation};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::{JoinHandle, LocalSet};

use super::oracle::{Believed, Oracle};
use super::program::{MUTEX, Program};

pub(crate) const TTL: Duration = Duration::from_secs(1);
/// Longer than any program can take once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(300);

/// What happened in a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) grants: u64,
    pub(crate) refusals: u64,
    pub(crate) timeouts: u64,
    pub(crate) errors: u64,
    pub(crate) losses: u64,
    pub(crate) cancelled: u64,
    pub(crate) downgrades: u64,
    pub(crate) crashes: u64,
    pub(crate) increments: u64,
    pub(crate) unknown_increments: u64,
    digest: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.grants += other.grants;
        self.refusals += other.refusals;
        self.timeouts += other.timeouts;
        self.errors += other.errors;
        self.losses += other.losses;
        self.cancelled += other.cancelled;
        self.downgrades += other.downgrades;
        self.crashes += other.crashes;
        self.increments += other.increments;
        self.unknown_increments += other.unknown_increments;
        self.digest ^= other.digest;
    }
}

/// What the programs of a run share.
pub(crate) struct World {
    pub(crate) quorum: bool,
    pub(crate) oracle: Oracle,
    tally: RefCell<Tally>,
    memories: Vec<Memory>,
}

/// One client: its connections, one to each memory, and its programs.
struct Participant {
    connections: Vec<Arc<Chaos>>,
    locks: Locks,
    programs: Vec<JoinHandle<()>>,
}

impl World {
    pub(crate) fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.tally.borrow_mut());
    }

    /// A program that ends here has crashed, and believes nothing any more.
    pub(crate) fn on_crash<'a>(&'a self, hold: &Rc<Believed>) -> impl Drop + use<'a> {
        struct Forget<'a>(&'a World, std::rc::Weak<Believed>);
        impl Drop for Forget<'_> {
            fn drop(&mut self) {
                if let Some(hold) = self.1.upgrade() {
                    self.0.oracle.forget(&hold);
                }
            }
        }
        Forget(self, Rc::downgrade(hold))
    }

    async fn participant(self: &Rc<Self>, faults: Faults, random: &mut SmallRng) -> Participant {
        let connect = |memory: &Memory| Arc::new(Chaos::new(Arc::new(memory.clone()), random.random(), faults));
        let connections: Vec<Arc<Chaos>> = self.memories.iter().map(connect).collect();
        let members = connections.iter().map(|chaos| Arc::clone(chaos) as Arc<dyn Engine>);
        let engine: Arc<dyn Engine> = if self.quorum {
            Arc::new(Quorum::new(members.collect()).expect("an odd number"))
        } else {
            members.into_iter().next().expect("one")
        };
        let locks = Locks::simulated(engine).await.expect("connecting is not a request");
        let owner = random.random_bool(0.2).then(|| Owner::new("again"));
        let programs = (0..random.random_range(1..3))
            .map(|_| tokio::task::spawn_local(Program::new(self, &locks, random.random(), owner.clone()).run()))
            .collect();
        Participant { connections, locks, programs }
    }

    /// Something happens to a client while its programs run.
    async fn disturb(&self, participant: &mut Participant, random: &mut SmallRng) {
        let some = |random: &mut SmallRng, connections: &[Arc<Chaos>]| -> Vec<Arc<Chaos>> {
            connections.iter().filter(|_| random.random_bool(0.7)).cloned().collect()
        };
        match random.random_range(0..10) {
            0..4 => {
                let cut = some(random, &participant.connections);
                cut.iter().for_each(|connection| connection.cut());
                tokio::time::sleep(TTL.mul_f64(random.random_range(0.0..2.0))).await;
                cut.iter().for_each(|connection| connection.mend());
            }
            4..6 => {
                self.count(|tally| tally.crashes += 1);
                participant.connections.iter().for_each(|connection| connection.cut());
                for program in participant.programs.drain(..) {
                    program.abort();
                    let _ = program.await;
                }
            }
            _ => {}
        }
    }

    /// Faults have stopped: everybody gets in, and then nothing is left.
    async fn comes_to_rest(&self, participants: Vec<Participant>) {
        for participant in participants {
            for program in participant.programs {
                match tokio::time::timeout(PATIENCE, program).await {
                    Ok(Ok(())) => {}
                    Ok(Err(end)) if end.is_panic() => std::panic::resume_unwind(end.into_panic()),
                    Ok(Err(_)) => panic!("a program was cancelled"),
                    Err(_) => panic!("a program still waits although faults have stopped"),
                }
            }
            for connection in &participant.connections {
                connection.mend();
            }
            let guard = participant.locks.mutex(MUTEX).ttl(TTL).wait(PATIENCE).lock().await;
            guard.expect("the lock is free").release().await.expect("the engine is well");
            participant.locks.close(PATIENCE).await.expect("everything is given back");
        }
        tokio::time::sleep(TTL * 3).await;
        for memory in &self.memories {
            let left = memory.survey("").await.expect("memory never fails");
            assert!(left.is_empty(), "something is left over: {left:?}");
        }
    }

    /// No increment under the lock is lost, and none is counted twice.
    async fn check_counter(&self) {
        let cell = self.memories[0].read(&Name::new("counter").expect("a name")).await.expect("memory never fails");
        let counted = cell.value.as_slice().try_into().map_or(0, u64::from_le_bytes);
        let Tally { increments, unknown_increments, .. } = *self.tally.borrow();
        assert!(
            (increments..=increments + unknown_increments).contains(&counted),
            "{increments} increments and {unknown_increments} unknown ones came to {counted}"
        );
    }
}

fn faults(random: &mut SmallRng) -> Faults {
    let mut chance = |most: f64| if random.random_bool(0.5) { random.random_range(0.0..most) } else { 0.0 };
    let (lose_request, lose_reply, duplicate, fail) = (chance(0.2), chance(0.2), chance(0.3), chance(0.1));
    let delay = TTL.mul_f64(if random.random_bool(0.5) { random.random_range(0.0..0.5) } else { 0.01 });
    Faults { delay, lose_request, lose_reply, duplicate, fail }
}

async fn scenario(seed: u64) -> Tally {
    let mut random = SmallRng::seed_from_u64(seed);
    let quorum = random.random_bool(0.25);
    let memories = (0..if quorum { 3 } else { 1 }).map(|_| Memory::simulated()).collect();
    let world = Rc::new(World { quorum, oracle: Oracle::default(), tally: RefCell::default(), memories });
    let faults = faults(&mut random);
    let mut participants = Vec::new();
    for _ in 0..random.random_range(2..4) {
        participants.push(world.participant(faults, &mut random).await);
    }
    for participant in &mut participants {
        world.disturb(participant, &mut random).await;
    }
    tokio::time::sleep(TTL.mul_f64(random.random_range(0.0..3.0))).await;
    participants.iter().flat_map(|participant| &participant.connections).for_each(|chaos| chaos.set(Faults::NONE));
    world.comes_to_rest(participants).await;
    if !quorum {
        world.check_counter().await;
    }
    let digest = world.oracle.digest.get();
    Tally { digest, ..*world.tally.borrow() }
}

/// Runs the schedule of a seed; panics when an oracle objects.
pub(crate) fn run(seed: u64) -> Tally {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    LocalSet::new().block_on(&runtime, async move {
        begin_simulation(seed);
        scenario(seed).await
    })
}
