//! Random programs on one name, beside a line kept in memory by the one rule.

mod servers;

use lockhouse_core::Claim;
use lockhouse_testkit::{OneName, Sides, async_trait, follows_the_rule};
use servers::{client, left_over, prefix, shared, tell};

/// The name `a` under a prefix of its own.
struct A {
    prefix: String,
    clients: [Sides; 2],
}

#[async_trait]
impl OneName for A {
    const HANDS_OVER: bool = true;

    async fn begin() -> Self {
        let (address, prefix) = (shared(), prefix());
        let clients = [client(&address, &prefix).await, client(&address, &prefix).await];
        Self { prefix, clients }
    }

    fn name(&self) -> &'static str {
        "a"
    }

    fn clients(&self) -> &[Sides; 2] {
        &self.clients
    }

    async fn expire(&self, claim: &Claim, holds: bool) {
        let (prefix, id) = (&self.prefix, format!("{:032x}", u128::from_be_bytes(*claim.id.as_bytes())));
        let command = match claim.capacity {
            1 if holds => format!("DEL {prefix}a"),
            _ => format!("ZADD {{{prefix}a}}\tleases XX 1 {id}"),
        };
        tell(&shared(), &command);
    }

    async fn left_over(&self) -> Vec<String> {
        let of_evicted = |key: &String| key.ends_with("\tclaims") || key.ends_with("\tleases");
        left_over(&shared(), &self.prefix).into_iter().filter(|key| !of_evicted(key)).collect()
    }
}

#[test]
fn the_scripts_grant_exactly_what_the_rule_grants() {
    follows_the_rule::<A>(64);
}
