//! Random programs on one name, beside a line kept in memory by the one rule.

mod servers;

use lockhouse_core::line::{Room, granted, place_among};
use lockhouse_core::{Claim, Patience, Renewal, Standing, Withdrawal};
use lockhouse_testkit::{Sides, claim as claim_on};
use proptest::prelude::*;
use servers::{client, shared, tell};

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
    name: String,
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

async fn check(clients: &[Sides], model: &Model) -> Result<(), TestCaseError> {
    let lines = clients[0].keeper.survey(&model.name).await.unwrap();
    let places = lines.first().map(|line| line.places.as_slice()).unwrap_or_default();
    prop_assert_eq!(places.len(), model.len());
    let (held, waiting) = places.split_at(model.holders.len());
    prop_assert!(held.iter().all(|place| place.token.is_some()) && waiting.iter().all(|place| place.token.is_none()));
    let mut holders: Vec<_> = held.iter().map(|place| (place.id, place.weight)).collect();
    let mut expected: Vec<_> = model.holders.iter().map(|claim| (claim.id.public(), claim.weight)).collect();
    holders.sort();
    expected.sort();
    prop_assert_eq!(holders, expected);
    let waiters: Vec<_> = waiting.iter().map(|place| (place.id, place.weight, place.priority)).collect();
    let expected: Vec<_> =
        model.waiters.iter().map(|claim| (claim.id.public(), claim.weight, claim.priority)).collect();
    prop_assert_eq!(waiters, expected);
    Ok(())
}

/// Ends a lease as the passing of time would.
async fn expire(claim: &Claim) {
    let id = format!("{:032x}", u128::from_be_bytes(*claim.id.as_bytes()));
    let statement = format!("UPDATE lockhouse_claims SET lease_end = clock_timestamp() WHERE id = '\\x{id}'");
    tell(&shared(), &statement).await;
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

/// Somebody comes by: a claim on the same name that is refused, or taken back at once.
async fn come_by(client: &Sides, name: &str, capacity: u32) {
    let passer = Claim { capacity, patience: Patience::None, priority: -9, ..claim_on(name) };
    client.front.claim(&passer).await.unwrap();
    client.front.withdraw(&passer).await.unwrap();
}

async fn run(capacity: u32, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (address, name) = (shared(), format!("rule-{:08x}", rand::random::<u32>()));
    let clients = [client(&address, "lockhouse").await, client(&address, "lockhouse").await];
    let mut model = Model { capacity, name: name.clone(), ..Model::default() };
    let mut newest = 0;
    for step in steps {
        match step {
            Step::Claim { by, weight, priority, patience } => {
                let claim = Claim { weight, capacity, priority, patience, ..claim_on(&name) };
                let standing = clients[by].front.claim(&claim).await.unwrap();
                newest = same(standing, model.join(&claim), newest)?;
            }
            Step::Again { which } => {
                let Some(claim) = model.get(which).cloned() else { continue };
                let granted = matches!(clients[0].front.claim(&claim).await.unwrap(), Standing::Granted { .. });
                prop_assert_eq!(granted, model.holds(&claim));
            }
            Step::Downgrade { which, weight } => {
                let Some(claim) = model.get(which) else { continue };
                claim.weight = weight.min(claim.weight);
                let claim = claim.clone();
                clients[1].front.claim(&claim).await.unwrap();
                model.settle();
            }
            Step::Withdraw { by, which } => {
                let Some(claim) = model.get(which).cloned() else { continue };
                prop_assert_eq!(clients[by].front.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
                prop_assert_eq!(clients[by].front.withdraw(&claim).await.unwrap(), Withdrawal::NotThere);
                model.leave(&claim);
            }
            Step::Expire { which } => {
                let Some(claim) = model.get(which).cloned() else { continue };
                expire(&claim).await;
                let renewal = clients[0].front.renew(std::slice::from_ref(&claim)).await.unwrap();
                prop_assert_eq!(renewal, [Renewal::Gone]);
                model.leave(&claim);
                come_by(&clients[0], &name, capacity).await;
            }
            Step::EvictWaiter { which } => {
                let Some(claim) = model.get(which).cloned() else { continue };
                if model.holds(&claim) {
                    continue;
                }
                prop_assert!(clients[1].front.evict(&claim.name, &claim.id.public()).await.unwrap());
                prop_assert_eq!(clients[0].front.claim(&claim).await.unwrap(), Standing::Refused);
                model.leave(&claim);
            }
            Step::Renew => {
                let all: Vec<Claim> = model.holders.iter().chain(&model.waiters).cloned().collect();
                let renewals = clients[0].keeper.renew(&all).await.unwrap();
                prop_assert!(renewals.iter().all(|renewal| *renewal == Renewal::Renewed));
            }
        }
        check(&clients, &model).await?;
    }
    for claim in model.holders.iter().chain(&model.waiters) {
        clients[0].front.withdraw(claim).await.unwrap();
    }
    // Evicted waiters are remembered until their lease is over; otherwise nothing is left.
    let left =
        tell(&address, &format!("SELECT count(*) FROM lockhouse_claims WHERE name = '{name}' AND state <> 2")).await;
    prop_assert_eq!(left, ["0"]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_functions_grant_exactly_what_the_rule_grants((capacity, steps) in program()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run(capacity, steps))?;
    }
}
