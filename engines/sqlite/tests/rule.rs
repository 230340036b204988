//! Random programs on one name, beside a line kept in memory by the one rule.

mod clients;

use clients::{Client, client};
use lockhouse_core::line::{granted, place_among};
use lockhouse_core::{Claim, Patience, Standing, Withdrawal};
use proptest::prelude::*;

const CAPACITY: u32 = 4;

#[derive(Debug, Clone)]
enum Step {
    Claim { by: usize, weight: u32, priority: i32, patient: bool },
    Again { which: usize },
    Downgrade { which: usize, weight: u32 },
    Withdraw { by: usize, which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2usize, 1..=CAPACITY, -1..2i32, prop::bool::weighted(0.8))
            .prop_map(|(by, weight, priority, patient)| Step::Claim { by, weight, priority, patient }),
        1 => (0..32usize).prop_map(|which| Step::Again { which }),
        1 => (0..32usize, 1..CAPACITY).prop_map(|(which, weight)| Step::Downgrade { which, weight }),
        3 => (0..2usize, 0..32usize).prop_map(|(by, which)| Step::Withdraw { by, which }),
    ]
}

/// The reference: the line in order, holders first, decided by nothing but the rule.
#[derive(Debug, Default)]
struct Model {
    line: Vec<(Claim, usize)>,
    holders: usize,
}

impl Model {
    fn settle(&mut self) {
        let holding = granted(CAPACITY, self.line.iter().map(|(claim, _)| claim.weight));
        assert!(holding >= self.holders, "a grant was taken away");
        self.holders = holding;
    }

    /// Puts a claim in line; `false` when it had no patience and was not let in.
    fn join(&mut self, claim: &Claim, by: usize) -> bool {
        let waiters = self.line[self.holders..].iter().map(|(claim, _)| claim.priority);
        let at = self.holders + place_among(waiters, claim.priority);
        self.line.insert(at, (claim.clone(), by));
        self.settle();
        let refused = at >= self.holders && claim.patience == Patience::None;
        if refused {
            self.line.remove(at);
        }
        !refused
    }

    fn leave(&mut self, at: usize) {
        self.line.remove(at);
        self.holders -= usize::from(at < self.holders);
        self.settle();
    }
}

async fn check(clients: &[Client], model: &Model) -> Result<(), TestCaseError> {
    let lines = clients[0].keeper.survey("").await.unwrap();
    let places = lines.first().map(|line| line.places.as_slice()).unwrap_or_default();
    prop_assert_eq!(places.len(), model.line.len());
    // Holders are shown by token and stand in the model by arrival, so they are compared as a set; waiters in order.
    let mut holders: Vec<_> = places[..model.holders].iter().map(|place| place.id).collect();
    let mut expected: Vec<_> = model.line[..model.holders].iter().map(|(claim, _)| claim.id.public()).collect();
    holders.sort();
    expected.sort();
    prop_assert_eq!(holders, expected);
    for (place, (claim, _)) in places.iter().zip(&model.line).skip(model.holders) {
        prop_assert_eq!(place.id, claim.id.public());
    }
    prop_assert!(places[..model.holders].iter().all(|place| place.token.is_some()));
    prop_assert!(places[model.holders..].iter().all(|place| place.token.is_none()));
    Ok(())
}

async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let clients = [client(&path).await, client(&path).await];
    let mut model = Model::default();
    let mut newest = 0;
    for step in steps {
        let pick = |which: usize| (!model.line.is_empty()).then(|| which % model.line.len().max(1));
        match step {
            Step::Claim { by, weight, priority, patient } => {
                let patience = if patient { Patience::Waits } else { Patience::None };
                let claim = Claim { weight, capacity: CAPACITY, priority, patience, ..clients::claim("a") };
                let standing = clients[by].front.claim(&claim).await.unwrap();
                let joined = model.join(&claim, by);
                let at = model.line.iter().position(|(other, _)| other.id == claim.id);
                match (standing, at) {
                    (Standing::Refused, None) => prop_assert!(!joined),
                    (Standing::Granted { token }, Some(at)) => {
                        prop_assert!(at < model.holders);
                        prop_assert!(token > newest);
                        newest = token;
                    }
                    (Standing::Queued { ahead }, Some(at)) => {
                        prop_assert!(at >= model.holders);
                        prop_assert_eq!(ahead as usize, at);
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            Step::Again { which } => {
                let Some(at) = pick(which) else { continue };
                let (claim, by) = &model.line[at];
                let granted = matches!(clients[*by].front.claim(claim).await.unwrap(), Standing::Granted { .. });
                prop_assert_eq!(granted, at < model.holders);
            }
            Step::Downgrade { which, weight } => {
                let Some(at) = pick(which) else { continue };
                let (claim, by) = &mut model.line[at];
                claim.weight = weight.min(claim.weight);
                clients[*by].front.claim(claim).await.unwrap();
                model.settle();
            }
            Step::Withdraw { by, which } => {
                let Some(at) = pick(which) else { continue };
                let claim = model.line[at].0.clone();
                prop_assert_eq!(clients[by].front.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
                model.leave(at);
            }
        }
        check(&clients, &model).await?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_grants_exactly_what_the_rule_grants(steps in prop::collection::vec(step(), 1..60)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run(steps))?;
    }
}
