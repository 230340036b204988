//! The memory engine faces the conformance suite.

use std::sync::Arc;

use lockhouse_core::{Connector, Engine, Guarantees, Memory, Name};
use lockhouse_testkit::{Saboteur, Subject, async_trait};

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
