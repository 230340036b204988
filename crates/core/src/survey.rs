//! What people see of the locks: never a base for deciding whether to proceed.

use std::time::Duration;

use crate::claim::PublicId;
use crate::name::Name;

/// The claims on one name, in order: holders first, then waiters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What is claimed.
    pub name: Name,
    /// How much there is to claim.
    pub capacity: u32,
    /// The claims in order.
    pub places: Vec<Place>,
}

impl Line {
    /// The claims that are granted.
    pub fn holders(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.token.is_some())
    }

    /// The claims that wait, next one first.
    pub fn waiters(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.token.is_none())
    }
}

/// One claim in a line, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What to call the claim.
    pub id: PublicId,
    /// Who claims.
    pub owner: String,
    /// How much is claimed.
    pub weight: u32,
    /// Its priority.
    pub priority: i32,
    /// Its fencing token if it is granted.
    pub token: Option<u64>,
    /// How long it has been in line, or held once it is granted.
    pub since: Duration,
    /// How long the engine will honour it without hearing of it again; zero where a session or connection decides.
    pub lease_left: Duration,
    /// A word for people.
    pub note: Option<String>,
    /// An operator has ended it, and its holder has not withdrawn yet.
    pub evicted: bool,
}
