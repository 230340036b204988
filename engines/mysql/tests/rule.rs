//! Random programs on one name, beside a line kept in memory by the one rule.

mod servers;

use lockhouse_core::Claim;
use lockhouse_testkit::{OneName, Sides, async_trait, follows_the_rule};
use servers::{client, number, shared, tell};

/// A name of its own in tables that all tests share.
struct InTables {
    name: String,
    clients: [Sides; 2],
}

#[async_trait]
impl OneName for InTables {
    // A waiter asks, and lets in who is next.
    const HANDS_OVER: bool = false;

    async fn begin() -> Self {
        let clients = [client(&shared(), "lockhouse").await, client(&shared(), "lockhouse").await];
        Self { name: format!("rule-{:08x}", rand::random::<u32>()), clients }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn clients(&self) -> &[Sides; 2] {
        &self.clients
    }

    async fn expire(&self, claim: &Claim, _holds: bool) {
        let id = format!("{:032x}", u128::from_be_bytes(*claim.id.as_bytes()));
        for table in ["locks", "claims"] {
            let past = format!("UPDATE lockhouse_{table} SET lease_end = UTC_TIMESTAMP(6) WHERE id = x'{id}'");
            tell(&shared(), &past).await;
        }
    }

    async fn left_over(&self) -> Vec<String> {
        // What is over lies there until somebody gets to it.
        let left = format!("name = '{}' AND lease_end > UTC_TIMESTAMP(6)", self.name);
        let in_row = number(&shared(), &format!("SELECT COUNT(id) FROM lockhouse_locks WHERE {left}")).await;
        let in_line = format!("SELECT COUNT(*) FROM lockhouse_claims WHERE {left} AND state < 2");
        (0..in_row + number(&shared(), &in_line).await).map(|_| "a claim".to_owned()).collect()
    }
}

#[test]
fn the_statements_grant_exactly_what_the_rule_grants() {
    follows_the_rule::<InTables>(24);
}
