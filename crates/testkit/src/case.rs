//! One case of the suite, as data.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use lockhouse_core::Guarantees;

use crate::need::{Means, Need};
use crate::stage::Stage;

/// One case: what it is called, what it stands for, what it needs, and what it does.
#[derive(Clone, Copy)]
pub struct Case {
    /// The file it is in.
    pub section: &'static str,
    /// Its name: the function and the test are called so.
    pub name: &'static str,
    /// What it shows, in a line for people.
    pub line: &'static str,
    /// What it needs; it runs where all of these are met.
    pub needs: &'static [Need],
    pub(crate) body: fn(Stage) -> Pin<Box<dyn Future<Output = ()>>>,
}

impl Case {
    /// What is missing for the case to run; nothing when it does.
    #[must_use]
    pub fn missing(&self, guarantees: &Guarantees, means: &Means) -> Vec<Need> {
        self.needs.iter().copied().filter(|need| !need.is_met(guarantees, means)).collect()
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.section, self.name)
    }
}
