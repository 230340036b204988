//! The conformance suite: what every engine must pass, and the tools it uses.
//!
//! An engine's whole test file describes the engine and names it once; [`conformance!`] makes one test of every case.
//! Cases that the engine's [`Guarantees`](lockhouse_core::Guarantees) or the subject's means exclude are left out by
//! data: such a test says what is missing. Another test fails when the engine promises something that no case which
//! runs here exercises.
//!
//! ```
//! use std::sync::Arc;
//!
//! use lockhouse_core::{Connector, Engine, Guarantees, Locks, Memory, Name};
//! use lockhouse_testkit::{Saboteur, Subject, async_trait};
//!
//! #[derive(Debug, Default)]
//! struct InMemory(Memory);
//!
//! #[async_trait]
//! impl Subject for InMemory {
//!     fn guarantees(&self) -> Guarantees {
//!         self.0.guarantees()
//!     }
//!
//!     fn connector(&self) -> Arc<dyn Connector> {
//!         Arc::new(self.0.clone())
//!     }
//!
//!     // What another process needs to find the same engine, for an engine that several processes can share.
//!     fn url(&self) -> Option<String> {
//!         None
//!     }
//!
//!     fn saboteur(&self) -> Option<&dyn Saboteur> {
//!         Some(self)
//!     }
//! }
//!
//! #[async_trait]
//! impl Saboteur for InMemory {
//!     async fn remove(&self, name: &Name) {
//!         self.0.sabotage(name);
//!     }
//! }
//!
//! lockhouse_testkit::conformance!(InMemory::default());
//! // An engine that several processes share says how a separate process connects to a subject's `url`:
//! // lockhouse_testkit::conformance!(InMemory::default(), taker: connect);
//! # fn main() {}
//! ```
//!
//! The expression is evaluated once a case, so that cases which run at the same time do not share an engine unless it
//! gives them one. Names are never shared: each case has a prefix of its own.

mod alone;
mod authority;
mod case;
mod cases;
mod complete;
mod conformance;
mod eventually;
mod gate;
mod history;
mod inside;
mod mariadb;
mod need;
mod peer;
mod polled;
mod ports;
mod postgres;
mod process;
mod proxy;
mod rule;
mod server_clock;
mod servers;
mod sides;
mod stage;
mod subject;
mod table;
mod taker;
mod task;
mod wire;

pub use async_trait::async_trait;

pub use alone::alone;
pub use authority::Authority;
pub use case::Case;
pub use complete::{complaints, complete};
pub use conformance::run;
pub use eventually::eventually;
pub use gate::{Gate, Gated, Mode, Verb};
pub use mariadb::MariaDb;
pub use need::{Means, Need};
pub use peer::{Peer, python_with};
pub use ports::free_port;
pub use postgres::{PgBouncer, Postgres};
pub use process::Taker;
pub use proxy::Proxy;
pub use rule::{OneName, follows_the_rule};
pub use server_clock::ServerClock;
pub use servers::{Program, bound, given, spawn};
pub use sides::{Sides, claim};
pub use stage::Stage;
pub use subject::{Members, OwnServer, Saboteur, Server, Shared, Subject};
pub use table::CASES;
use table::table;
pub use taker::serve;
pub use wire::{Cut, Wire};
