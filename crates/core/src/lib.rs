//! Lockhouse's core: the contract between clients and engines, the one rule that decides who is granted, the client
//! that waits, renews and tells of losses, and the engines that need no network.

pub mod line;

mod claim;
mod clock;
mod engine;
mod error;
mod guarantees;
mod name;
mod owner;
mod survey;

pub use claim::{Claim, ClaimId, Patience, PublicId};
pub use clock::{Clock, Moment};
pub use engine::{Cell, Connector, Engine, Renewal, Side, Standing, Withdrawal, Write, Written};
pub use error::{Error, Happened, Kind, Result};
pub use guarantees::{CrashFrees, Exclusion, Guarantees, Needs, TokenSurvives, WakeUp};
pub use name::{MAX_NAME_BYTES, Name};
pub use owner::Owner;
pub use survey::{Line, Place};
