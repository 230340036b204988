//! Random programs on one name, beside a line kept in memory by the one rule: for engines that keep the rule in a
//! language of their own.

use lockhouse_core::line::{Room, granted, place_among};
use lockhouse_core::{Claim, Patience, Renewal, Standing, Withdrawal};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::async_trait;
use crate::sides::{Sides, claim};

/// One name of an engine, which nobody else uses.
#[async_trait]
pub trait OneName: Sized {
    /// Whether who leaves lets in who is next. Otherwise whoever comes by does.
    const HANDS_OVER: bool;

    /// A new name, and two clients.
    async fn begin() -> Self;

    /// The name.
    fn name(&self) -> &str;

    /// The clients.
    fn clients(&self) -> &[Sides; 2];

    /// Ends the lease of a claim, which holds or waits, as the passing of time would.
    async fn expire(&self, claim: &Claim, holds: bool);

    /// What is left of the name when everybody was withdrawn, but for what is remembered of evicted waiters.
    async fn left_over(&self) -> Vec<String>;
}

/// Runs so many random programs, and says whether the engine granted exactly what the rule grants.
///
/// # Panics
/// When it did not, with the shortest program that shows it.
pub fn follows_the_rule<N: OneName>(programs: u32) {
    let config = ProptestConfig { cases: programs, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&program(), |(capacity, steps)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there are threads");
        runtime.block_on(async { Run::<N>::begin(capacity).await.all(steps).await })
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[derive(Debug, Clone)]
enum Step {
    Claim {
        by: usize,
        weight: u32,
        priority: i32,
        patience: Patience,
    },
    Again {
        which: usize,
    },
    Downgrade {
        which: usize,
        weight: u32,
    },
    Withdraw {
        by: usize,
        which: usize,
    },
    /// The lease ends: it is moved into the past.
    Expire {
        which: usize,
    },
    EvictWaiter {
        which: usize,
    },
    Renew,
}

fn step(capacity: u32) -> impl Strategy<Value = Step> {
    let patience = prop_oneof![6 => Just(Patience::Waits), 2 => Just(Patience::None), 1 => Just(Patience::Barges)];
    prop_oneof![
        6 => (0..2usize, 1..=capacity, -2..3i32, patience)
            .prop_map(|(by, weight, priority, patience)| Step::Claim { by, weight, priority, patience }),
        1 => (0..32usize).prop_map(|which| Step::Again { which }),
        1 => (0..32usize, 1..=capacity).prop_map(|(which, weight)| Step::Downgrade { which, weight }),
        3 => (0..2usize, 0..32usize).prop_map(|(by, which)| Step::Withdraw { by, which }),
        1 => (0..32usize).prop_map(|which| Step::Expire { which }),
        1 => (0..32usize).prop_map(|which| Step::EvictWaiter { which }),
        1 => Just(Step::Renew),
    ]
}

fn program() -> impl Strategy<Value = (u32, Vec<Step>)> {
    prop_oneof![Just(1u32), Just(4u32), Just(u32::MAX)]
        .prop_flat_map(|capacity| (Just(capacity), prop::collection::vec(step(capacity), 1..50)))
}

/// The reference: holders in no order, waiters in order, decided by nothing but the rule.
#[derive(Debug, Default)]
struct Model {
    capacity: u32,
    holders: Vec<Claim>,
    waiters: Vec<Claim>,
}

impl Model {
    fn room(&self) -> Room {
        Room::beside(self.capacity, self.holders.iter().map(|claim| u64::from(claim.weight)).sum())
    }

    fn settle(&mut self) {
        let mut room = self.room();
        let admitted = self.waiters.iter().take_while(|claim| room.admit(claim.weight)).count();
        self.holders.extend(self.waiters.drain(..admitted));
        // The running sum and the walk over the whole line are the same.
        let line = self.holders.iter().chain(&self.waiters).map(|claim| claim.weight);
        assert_eq!(granted(self.capacity, line), self.holders.len());
    }

    /// Puts a claim in line; `None` when it had no patience and was not let in.
    fn join(&mut self, claim: &Claim) -> Option<usize> {
        let at = place_among(self.waiters.iter().map(|claim| claim.priority), claim.priority);
        if (at == 0 || claim.patience == Patience::Barges) && self.room().admit(claim.weight) {
            self.holders.push(claim.clone());
            return Some(0);
        }
        if claim.patience == Patience::None {
            return None;
        }
        self.waiters.insert(at, claim.clone());
        Some(self.holders.len() + at)
    }

    fn len(&self) -> usize {
        self.holders.len() + self.waiters.len()
    }

    fn get(&mut self, which: usize) -> Option<&mut Claim> {
        let at = which.checked_rem(self.len())?;
        self.holders.iter_mut().chain(&mut self.waiters).nth(at)
    }

    fn leave(&mut self, claim: &Claim) {
        self.holders.retain(|other| other.id != claim.id);
        self.waiters.retain(|other| other.id != claim.id);
        self.settle();
    }

    fn holds(&self, claim: &Claim) -> bool {
        self.holders.iter().any(|other| other.id == claim.id)
    }
}

/// One program on its way.
struct Run<N> {
    at: N,
    model: Model,
    newest: u64,
}

impl<N: OneName> Run<N> {
    async fn begin(capacity: u32) -> Self {
        Self { at: N::begin().await, model: Model { capacity, ..Model::default() }, newest: 0 }
    }

    async fn all(mut self, steps: Vec<Step>) -> Result<(), TestCaseError> {
        for step in steps {
            self.step(step).await?;
            self.check().await?;
        }
        for claim in self.model.holders.iter().chain(&self.model.waiters) {
            self.client(0).front.withdraw(claim).await.unwrap();
        }
        prop_assert_eq!(self.at.left_over().await, [""; 0]);
        Ok(())
    }

    fn client(&self, number: usize) -> &Sides {
        &self.at.clients()[number]
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Claim { by, weight, priority, patience } => {
                let capacity = self.model.capacity;
                let claim = Claim { weight, capacity, priority, patience, ..claim(self.at.name()) };
                let standing = self.client(by).front.claim(&claim).await.unwrap();
                self.newest = same(standing, self.model.join(&claim), self.newest)?;
            }
            Step::Again { which } => {
                let Some(claim) = self.model.get(which).cloned() else { return Ok(()) };
                let granted = matches!(self.client(0).front.claim(&claim).await.unwrap(), Standing::Granted { .. });
                prop_assert_eq!(granted, self.model.holds(&claim));
            }
            Step::Downgrade { which, weight } => {
                let Some(claim) = self.model.get(which) else { return Ok(()) };
                claim.weight = weight.min(claim.weight);
                let claim = claim.clone();
                self.client(1).front.claim(&claim).await.unwrap();
                self.model.settle();
            }
            Step::Withdraw { by, which } => {
                let Some(claim) = self.model.get(which).cloned() else { return Ok(()) };
                prop_assert_eq!(self.client(by).front.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
                prop_assert_eq!(self.client(by).front.withdraw(&claim).await.unwrap(), Withdrawal::NotThere);
                self.left(&claim).await;
            }
            Step::Expire { which } => {
                let Some(claim) = self.model.get(which).cloned() else { return Ok(()) };
                self.at.expire(&claim, self.model.holds(&claim)).await;
                let renewal = self.client(0).front.renew(std::slice::from_ref(&claim)).await.unwrap();
                prop_assert_eq!(renewal, [Renewal::Gone]);
                self.model.leave(&claim);
                self.come_by().await;
            }
            Step::EvictWaiter { which } => {
                let Some(claim) = self.model.get(which).cloned() else { return Ok(()) };
                if self.model.holds(&claim) {
                    return Ok(());
                }
                prop_assert!(self.client(1).front.evict(&claim.name, &claim.id.public()).await.unwrap());
                prop_assert_eq!(self.client(0).front.claim(&claim).await.unwrap(), Standing::Refused);
                self.left(&claim).await;
            }
            Step::Renew => {
                let all: Vec<Claim> = self.model.holders.iter().chain(&self.model.waiters).cloned().collect();
                let renewals = self.client(0).keeper.renew(&all).await.unwrap();
                prop_assert!(renewals.iter().all(|renewal| *renewal == Renewal::Renewed));
            }
        }
        Ok(())
    }

    /// A claim left the line.
    async fn left(&mut self, claim: &Claim) {
        self.model.leave(claim);
        if !N::HANDS_OVER {
            self.come_by().await;
        }
    }

    /// Somebody comes by: a claim on the same name that is refused, or taken back at once.
    async fn come_by(&self) {
        let patience = Patience::None;
        let passer = Claim { capacity: self.model.capacity, patience, priority: -9, ..claim(self.at.name()) };
        self.client(0).front.claim(&passer).await.unwrap();
        self.client(0).front.withdraw(&passer).await.unwrap();
    }

    /// What a survey shows is what the model has.
    async fn check(&self) -> Result<(), TestCaseError> {
        let lines = self.client(0).keeper.survey(self.at.name()).await.unwrap();
        let places = lines.first().map(|line| line.places.as_slice()).unwrap_or_default();
        prop_assert_eq!(places.len(), self.model.len());
        let (held, waiting) = places.split_at(self.model.holders.len());
        prop_assert!(held.iter().all(|place| place.token.is_some()));
        prop_assert!(waiting.iter().all(|place| place.token.is_none()));
        let mut holders: Vec<_> = held.iter().map(|place| (place.id, place.weight)).collect();
        let mut expected: Vec<_> = self.model.holders.iter().map(|claim| (claim.id.public(), claim.weight)).collect();
        holders.sort();
        expected.sort();
        prop_assert_eq!(holders, expected);
        let waiters: Vec<_> = waiting.iter().map(|place| (place.id, place.weight, place.priority)).collect();
        let expected = self.model.waiters.iter().map(|claim| (claim.id.public(), claim.weight, claim.priority));
        prop_assert_eq!(waiters, expected.collect::<Vec<_>>());
        Ok(())
    }
}

/// The engine and the model agree about a newcomer. Returns the newest token.
fn same(standing: Standing, at: Option<usize>, newest: u64) -> Result<u64, TestCaseError> {
    match (standing, at) {
        (Standing::Refused, None) => {}
        (Standing::Granted { token }, Some(0)) => {
            prop_assert!(token > newest);
            return Ok(token);
        }
        (Standing::Queued { ahead }, Some(at)) => prop_assert_eq!(ahead as usize, at),
        other => prop_assert!(false, "{:?}", other),
    }
    Ok(newest)
}
