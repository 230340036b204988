//! What can happen to a connection.

use std::fmt::Debug;

/// How a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Closed, and new ones are refused: requests are certainly not carried out.
    Closed,
    /// Reset while requests are on their way: they may have been carried out.
    Reset,
    /// Nothing arrives in either direction, and nobody says so.
    Silent,
    /// The other end is gone and this one does not know.
    HalfOpen,
    /// Requests arrive, answers do not.
    Deaf,
}

impl Cut {
    /// Every way.
    pub const ALL: [Self; 5] = [Self::Closed, Self::Reset, Self::Silent, Self::HalfOpen, Self::Deaf];
}

/// The connection of one client, as somebody with a pair of scissors sees it.
pub trait Wire: Debug + Send + Sync {
    /// Cuts it, for both sides of the client.
    fn cut(&self, how: Cut);
    /// Mends it.
    fn mend(&self);
}
