//! What the members of a quorum say to a claim, and what it comes to.

use crate::error::Error;

/// What the members said to one claim.
#[derive(Debug, Default)]
pub(crate) struct Votes {
    pub(crate) granted: Vec<(usize, u64)>,
    /// The member that keeps the claim's place has it in line, behind so many.
    pub(crate) queued: Option<u32>,
    pub(crate) refused: usize,
    pub(crate) error: Option<Error>,
}

/// What a round of votes comes to.
pub(crate) enum Outcome {
    Granted(Vec<(usize, u64)>),
    /// In line, or granted by a minority.
    Waiting(Votes),
    /// The member that was to keep the place did not answer.
    NoPlace,
    Refused,
}
