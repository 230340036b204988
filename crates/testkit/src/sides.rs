//! Both sides of a client without the client, for tests of an engine's verbs.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Claim, Connector, Engine, Name, Owner, Side};

/// Both sides of a client.
#[derive(Debug)]
pub struct Sides {
    /// The keeper's.
    pub keeper: Arc<dyn Engine>,
    /// The caller's.
    pub front: Arc<dyn Engine>,
}

impl Sides {
    /// Connects both, in the order in which a client does.
    ///
    /// # Panics
    /// When the engine cannot be reached.
    pub async fn of(connector: &impl Connector) -> Self {
        let keeper = connector.connect(Side::Keeper).await.expect("the engine can be reached");
        let front = connector.connect(Side::Front).await.expect("the engine can be reached again");
        Self { keeper, front }
    }
}

/// A claim on a mutex by a tester who is patient, with a lease of ten seconds.
///
/// # Panics
/// When the name is none.
#[must_use]
pub fn claim(name: &str) -> Claim {
    Claim::on(Name::new(name).expect("it is a name"), Owner::new("tester"), Duration::from_secs(10))
}
