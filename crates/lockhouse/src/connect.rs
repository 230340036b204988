//! From a URL to an engine.

use std::sync::Arc;

use async_trait::async_trait;
use lockhouse_core::{Connector, Engine, Error, Kind, Locks, Memory, Prefixed, Result, Side};

use crate::url::EngineUrl;

/// The schemes that this build can connect to, each with an example.
#[must_use]
pub fn schemes() -> &'static [(&'static str, &'static str)] {
    &[
        ("memory", "memory:"),
        #[cfg(feature = "sqlite")]
        ("sqlite", "sqlite:/var/lib/locks.db"),
        #[cfg(feature = "redis")]
        ("redis", "redis://127.0.0.1:6379"),
        #[cfg(feature = "redis")]
        ("rediss", "rediss://redis.example.org"),
        #[cfg(feature = "redis")]
        ("redis+sentinel", "redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/mymaster"),
        #[cfg(feature = "redis")]
        ("redis+cluster", "redis+cluster://10.0.0.1,10.0.0.2,10.0.0.3"),
        #[cfg(feature = "redis")]
        ("redlock", "redlock://10.0.0.1,10.0.0.2,10.0.0.3"),
        #[cfg(feature = "mysql")]
        ("mysql", "mysql://user:password@127.0.0.1:3306/database"),
        #[cfg(feature = "postgres")]
        ("postgres", "postgres://user:password@127.0.0.1:5432/database"),
        #[cfg(feature = "etcd")]
        ("etcd", "etcd://127.0.0.1:2379"),
        #[cfg(feature = "etcd")]
        ("etcds", "etcds://etcd.example:2379"),
        #[cfg(feature = "zookeeper")]
        ("zookeeper", "zookeeper://127.0.0.1:2181/locks"),
        #[cfg(feature = "zookeeper")]
        ("zookeepers", "zookeepers://zookeeper.example:2281/locks"),
        #[cfg(feature = "consul")]
        ("consul", "consul://127.0.0.1:8500"),
        #[cfg(feature = "consul")]
        ("consuls", "consuls://consul.example:8501"),
    ]
}

/// Connects to the engine at a URL.
///
/// Every engine takes the option `prefix`, a namespace: names are put behind it, and those outside it are not seen.
///
/// # Errors
/// [`Kind::Invalid`] for a URL, a scheme or an option that is not known, with what to write instead; otherwise what the
/// engine says when it cannot be reached or refuses us.
///
/// # Cancellation safety
/// A dropped future leaves no connection and no thread behind.
pub async fn connect(url: &str) -> Result<Locks> {
    Locks::new(connector(url)?).await
}

/// What [`connect`] connects with: for programs that wrap an engine before they use it.
///
/// # Errors
/// As [`connect`], but for what the engine says.
pub fn connector(url: &str) -> Result<impl Connector> {
    let url = EngineUrl::parse(url)?;
    let inner: Arc<dyn Connector> = match url.scheme() {
        "memory" => {
            url.only(&["prefix"])?;
            Arc::new(Memory::new())
        }
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            url.only(&["prefix"])?;
            if url.rest().is_empty() {
                return Err(Error::new(Kind::Invalid, "the sqlite engine needs the path of its file")
                    .help("write sqlite:locks.db, or sqlite:/var/lib/locks.db"));
            }
            Arc::new(lockhouse_sqlite::Sqlite::at(url.rest()))
        }
        // On Redis the prefix is the engine's own: it has one where none is given, and may be empty.
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+sentinel" | "redis+cluster" | "redlock" => {
            return Ok(Addressed { inner: crate::redis::connector(&url)?, prefix: String::new() });
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => crate::mysql::connector(&url)?,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => crate::postgres::connector(&url)?,
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => return Ok(Addressed { inner: crate::etcd::connector(&url)?, prefix: String::new() }),
        #[cfg(feature = "consul")]
        "consul" | "consuls" => return Ok(Addressed { inner: crate::consul::connector(&url)?, prefix: String::new() }),
        #[cfg(feature = "zookeeper")]
        "zookeeper" | "zookeepers" => crate::zookeeper::connector(&url)?,
        other => return Err(unknown(other)),
    };
    Ok(Addressed { inner, prefix: url.option("prefix").unwrap_or_default().to_owned() })
}

/// The statements that create what an engine keeps in a database, if its URL says that it may not create it itself
/// (`?create=no`): for somebody who may.
///
/// # Errors
/// As [`connector`].
pub fn statements(url: &str) -> Result<Option<String>> {
    let url = EngineUrl::parse(url)?;
    match url.scheme() {
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => crate::mysql::statements(&url),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => crate::postgres::statements(&url),
        _ => Ok(None),
    }
}

fn unknown(scheme: &str) -> Error {
    let known: Vec<&str> = schemes().iter().map(|(_, example)| *example).collect();
    Error::new(Kind::Invalid, format!("there is no engine {scheme:?} in this build"))
        .help(format!("write one of {}", known.join(", ")))
}

/// An engine under a prefix.
#[derive(Debug)]
struct Addressed {
    inner: Arc<dyn Connector>,
    prefix: String,
}

#[async_trait]
impl Connector for Addressed {
    async fn connect(&self, side: Side) -> Result<Arc<dyn Engine>> {
        let engine = self.inner.connect(side).await?;
        if self.prefix.is_empty() { Ok(engine) } else { Ok(Arc::new(Prefixed::new(engine, &self.prefix)?)) }
    }
}
