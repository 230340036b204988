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
        #[cfg(feature = "etcd")]
        ("etcd", "etcd://127.0.0.1:2379"),
        #[cfg(feature = "etcd")]
        ("etcds", "etcds://etcd.example:2379"),
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
        "redis" => {
            url.only(&["prefix"])?;
            let redis = lockhouse_redis::Redis::at(url.rest())?;
            let redis = url.option("prefix").map_or(Ok(redis.clone()), |prefix| redis.prefix(prefix))?;
            return Ok(Addressed { inner: Arc::new(redis), prefix: String::new() });
        }
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => {
            url.only(&["prefix", "ca"])?;
            let etcd = lockhouse_etcd::Etcd::at(url.rest())?;
            let etcd = url.option("prefix").map_or(Ok(etcd.clone()), |prefix| etcd.prefix(prefix))?;
            let authority = url.option("ca").map(read_file).transpose()?;
            let etcd = match url.scheme() {
                "etcds" => etcd.tls(authority.as_deref()),
                _ if authority.is_some() => return Err(no_tls("etcd")),
                _ => etcd,
            };
            return Ok(Addressed { inner: Arc::new(etcd), prefix: String::new() });
        }
        other => return Err(unknown(other)),
    };
    Ok(Addressed { inner, prefix: url.option("prefix").unwrap_or_default().to_owned() })
}

#[cfg(feature = "etcd")]
fn read_file(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::new(Kind::Invalid, format!("the file {path:?} with the authority's certificate cannot be read"))
            .because(error)
    })
}

#[cfg(feature = "etcd")]
fn no_tls(scheme: &str) -> Error {
    Error::new(Kind::Invalid, "the option \"ca\" is for TLS, and this URL asks for none")
        .help(format!("write {scheme}s://…"))
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
