//! Lockhouse's core: the contract between clients and engines, the one rule that decides who is granted, the client
//! that waits, renews and tells of losses, and the engines that need no network.
//!
//! Programs use the crate `lockhouse`, which re-exports this one and connects to an engine by its URL.

pub mod line;

mod beside;
mod bugs;
mod cell;
mod chaos;
mod checkup;
mod claim;
mod client;
mod clock;
mod clock_watch;
mod drift;
mod election;
mod engine;
mod error;
mod fan_out;
mod guarantees;
mod guard;
mod hold;
mod keeper;
mod lane;
mod ledger;
mod majority;
mod memory;
mod meters;
mod mutex;
mod name;
mod notices;
mod options;
mod owner;
mod picture;
mod prefixed;
mod quiet;
mod quorum;
mod race;
mod random;
mod reentry;
mod request;
mod rwlock;
mod semaphore;
mod several;
mod survey;
mod votes;
mod wait;
#[cfg(test)]
mod woken;

pub use beside::beside;
pub use bugs::{Bug, Version};
pub use cell::CellHandle;
pub use chaos::{Chaos, Faults};
pub use checkup::{Checkup, Fact, Finding, Severity};
pub use claim::{Claim, ClaimId, Patience, PublicId};
pub use client::Locks;
pub use clock::{Clock, Moment};
pub use clock_watch::ClockWatch;
pub use election::{Election, Leader, Leadership, Observer};
pub use engine::{Cell, Connector, Engine, Renewal, Side, Standing, Withdrawal, Write, Written};
pub use error::{Error, Happened, Kind, Result};
pub use guarantees::{CrashFrees, Exclusion, Guarantees, Needs, TokenSurvives, WakeUp};
pub use guard::{Guard, Release};
pub use hold::Loss;
pub use majority::Majority;
pub use memory::Memory;
pub use mutex::Mutex;

pub use name::{MAX_NAME_BYTES, Name};
pub use notices::{Notices, Registration};
pub use options::{DEFAULT_TTL, MAX_TTL, MIN_TTL};
pub use owner::Owner;
pub use prefixed::Prefixed;
pub use quiet::QuietNames;
pub use quorum::Quorum;
pub use race::Race;
pub use random::begin_simulation;
pub use rwlock::{RwLock, WriteGuard};
pub use semaphore::Semaphore;
pub use several::{Several, SeveralGuard};
pub use survey::{Line, Place};
