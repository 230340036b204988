//! The cases, by section.

pub(crate) mod cells;
pub(crate) mod connection;
pub(crate) mod dropping;
pub(crate) mod election;
pub(crate) mod exclusion;
pub(crate) mod expiry;
pub(crate) mod fairness;
pub(crate) mod holder;
pub(crate) mod linger;
pub(crate) mod load;
pub(crate) mod names;
pub(crate) mod readwrite;
pub(crate) mod reentrancy;
pub(crate) mod release;
pub(crate) mod semaphore;
pub(crate) mod server;
pub(crate) mod several;
pub(crate) mod waiting;
