//! Random programs on one name, beside a line kept in memory by the one rule.

mod servers;

use lockhouse_core::Claim;
use lockhouse_testkit::{OneName, Sides, async_trait, follows_the_rule};
use servers::{client, shared, tell};

/// A name of its own in tables that all tests share.
struct InTables {
    name: String,
    clients: [Sides; 2],
}

#[async_trait]
impl OneName for InTables {
    const HANDS_OVER: bool = true;

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
        // It may stand in its lock's row.
        for table in ["locks", "claims"] {
            let over = format!("UPDATE lockhouse_{table} SET lease_end = clock_timestamp() WHERE id = '\\x{id}'");
            tell(&shared(), &over).await;
        }
    }

    async fn left_over(&self) -> Vec<String> {
        let name = &self.name;
        let left = format!(
            "SELECT id FROM lockhouse_locks WHERE name = '{name}' AND id IS NOT NULL
             UNION ALL SELECT id FROM lockhouse_claims WHERE name = '{name}' AND state <> 2"
        );
        tell(&shared(), &left).await
    }
}

#[test]
fn the_functions_grant_exactly_what_the_rule_grants() {
    follows_the_rule::<InTables>(64);
}
