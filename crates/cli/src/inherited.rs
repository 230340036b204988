//! What a `lockhouse` further up holds: a nested `run` of the same name goes ahead under it instead of waiting for it.
//!
//! The command finds the claims of its ancestors in `LOCKHOUSE_HELD`. A variable proves nothing: it may have outlived
//! the lock in some daemon. So the claim is looked up in the engine, which knows it by an identity that no other claim
//! has, and looked up again from time to time while the nested command runs: when it is gone, the lock is lost.

use std::time::Duration;

use lockhouse::{Locks, PublicId};

use crate::complaint::{Complaint, Outcome};
use crate::config::variable;

/// The variable with one line for each claim: `ID CAPACITY WEIGHT NAME`.
pub(crate) const HELD: &str = "LOCKHOUSE_HELD";
/// How often a nested run looks whether the lock it goes ahead under is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A claim that somebody further up holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(crate) id: PublicId,
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
    pub(crate) name: String,
}

impl Inherited {
    /// What the environment says.
    pub(crate) fn all() -> Vec<Self> {
        let text = variable(HELD).and_then(|value| value.into_string().ok()).unwrap_or_default();
        text.lines().filter_map(Self::parse).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(4, ' ');
        let (id, capacity) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { id, capacity, weight: words.next()?.parse().ok()?, name: words.next()?.to_owned() })
    }

    /// A line of the variable.
    pub(crate) fn line(&self) -> String {
        format!("{} {} {} {}", self.id, self.capacity, self.weight, self.name)
    }

    /// Its token, if the engine says that it is held.
    pub(crate) async fn token(&self, locks: &Locks) -> lockhouse::Result<Option<u64>> {
        let line = locks.line(&self.name).await?;
        let place = line.and_then(|line| line.places.into_iter().find(|place| place.id == self.id && !place.evicted));
        Ok(place.and_then(|place| place.token))
    }

    /// Refuses what the claim does not cover: that would wait for itself.
    pub(crate) fn covers(&self, capacity: u32, weight: u32) -> Outcome<()> {
        if self.capacity == capacity && weight <= self.weight {
            return Ok(());
        }
        let what =
            format!("a lockhouse further up holds {:?} in another way, and this one would wait for it", self.name);
        Err(Complaint::usage(what).help("the same --shared, --exclusive or --permits in both, or another name"))
    }

    /// Resolves when it is not held any more. An engine that does not answer says nothing.
    pub(crate) async fn lost(&self, locks: &Locks) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if let Ok(None) = self.token(locks).await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_whatever_the_name() {
        let claim = Inherited { id: "303132333435".parse().unwrap(), capacity: 3, weight: 1, name: "a b  c".into() };
        assert_eq!(Inherited::parse(&claim.line()), Some(claim.clone()));
        assert!(claim.covers(3, 1).is_ok());
        assert!(claim.covers(3, 2).is_err() && claim.covers(1, 1).is_err());
        assert_eq!(Inherited::parse("303132333435 1"), None);
    }
}
