//! Who claims.

use std::fmt;
use std::sync::Arc;

use crate::random;

/// Who claims: for reentrancy, and for people who look at a line.
///
/// Two claims of the same owner (the same value or a clone of it) on one client share a hold; two owners exclude each
/// other, whatever their labels. There are no thread ids anywhere.
///
/// ```
/// use lockhouse_core::Owner;
///
/// let alice = Owner::new("alice@web-1:4711");
/// assert_eq!(alice, alice.clone());
/// assert_ne!(alice, Owner::new("alice@web-1:4711"));
/// ```
#[derive(Clone)]
pub struct Owner {
    id: u128,
    label: Arc<str>,
}

impl Owner {
    /// A new owner with a label for people.
    #[must_use]
    pub fn new(label: impl AsRef<str>) -> Self {
        Self { id: u128::from_ne_bytes(random::bytes()), label: label.as_ref().into() }
    }

    /// This process, as `host:pid`: the label of claims for which nobody gave an owner.
    #[must_use]
    pub fn process() -> Self {
        let host = rustix::system::uname();
        Self::new(format!("{}:{}", host.nodename().to_string_lossy(), std::process::id()))
    }

    /// The label for people.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Owner {}

impl std::hash::Hash for Owner {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}
