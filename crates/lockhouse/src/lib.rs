//! Distributed locks on the engine you already run.
//!
//! [`connect`] turns a URL into [`Locks`]; from there it is the same for every engine. [`blocking`] is the same without
//! async.
//!
//! ```
//! # async fn example() -> Result<(), lockhouse::Error> {
//! let locks = lockhouse::connect("memory:").await?;
//! let guard = locks.mutex("orders/42").lock().await?;
//! guard.protect(async { /* nobody else is in here */ }).await?;
//! guard.release().await?;
//! # Ok(()) }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```

pub mod blocking;

#[cfg(any(feature = "consul", feature = "etcd", feature = "zookeeper"))]
mod authority;
mod connect;
#[cfg(feature = "consul")]
mod consul;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod databases;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod url;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use connect::{connect, connector, schemes, statements};
pub use lockhouse_core::*;
pub use url::EngineUrl;

/// The README's example runs as a doc test.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
#[derive(Debug)]
pub struct Readme;
