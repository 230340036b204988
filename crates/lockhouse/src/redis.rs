//! From a URL to Redis, in its topologies.

use std::sync::Arc;

use lockhouse_core::{Connector, Error, Kind, Result};
use lockhouse_redis::{Cluster, DEFAULT_PREFIX, Redis, Redlock, Tls};

use crate::url::EngineUrl;

/// What connects to the servers of a URL whose scheme is one of Redis's.
pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(match url.scheme() {
        "redlock" => &["prefix"],
        "rediss" => &["prefix", "replicas", "ca", "cert", "key"],
        _ => &["prefix", "replicas"],
    })?;
    let prefix = url.option("prefix").unwrap_or(DEFAULT_PREFIX);
    let replicas = replicas(url)?;
    Ok(match url.scheme() {
        "redlock" => Arc::new(Redlock::at(url.rest())?.prefix(prefix)?),
        "redis+cluster" => Arc::new(Cluster::at(url.rest())?.prefix(prefix)?.replicas(replicas)),
        "rediss" => Arc::new(Redis::encrypted(url.rest(), tls(url)?)?.prefix(prefix)?.replicas(replicas)),
        "redis+sentinel" => Arc::new(Redis::sentinel(url.rest())?.prefix(prefix)?.replicas(replicas)),
        _ => Arc::new(Redis::at(url.rest())?.prefix(prefix)?.replicas(replicas)),
    })
}

fn tls(url: &EngineUrl) -> Result<Tls> {
    let tls = match url.option("ca") {
        Some(file) => Tls::new().ca(file.as_ref())?,
        None => Tls::new(),
    };
    match (url.option("cert"), url.option("key")) {
        (Some(certificate), Some(key)) => tls.client(certificate.as_ref(), key.as_ref()),
        (None, None) => Ok(tls),
        _ => Err(Error::new(Kind::Invalid, "a certificate is nothing without its key, and the other way round")
            .help("write ?cert=client.crt&key=client.key")),
    }
}

fn replicas(url: &EngineUrl) -> Result<u32> {
    url.option("replicas").map_or(Ok(0), |number| {
        number.parse().map_err(|_| {
            Error::new(Kind::Invalid, format!("{number:?} is not a number of replicas")).help("write ?replicas=1")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topology_is_connected_by_its_scheme() {
        for (url, problem) in [
            ("redis://a", None),
            ("redis://a/2?prefix=&replicas=1", None),
            ("redis+sentinel://a,b/main?replicas=2", None),
            ("redlock://a,b,c?prefix=x:", None),
            ("rediss://a?replicas=1", None),
            ("rediss://a?cert=client.crt", Some("nothing without its key")),
            ("rediss://a?ca=/nowhere/ca.crt", Some("cannot be read")),
            ("redis+cluster://a,b:7000?replicas=1", None),
            ("redis+cluster://a/3", Some("no database")),
            ("redlock://a,b", Some("3, 5 or 7")),
            ("redlock://a,b,c?replicas=1", Some("no option")),
            ("redis://a?replicas=many", Some("number of replicas")),
            ("redis://a?colour=red", Some("it has prefix, replicas")),
            ("redis+sentinel://a,b", Some("name of the master")),
        ] {
            let told = connector(&EngineUrl::parse(url).unwrap()).err().map(|error| error.to_string());
            assert!(told.is_some() == problem.is_some(), "{url}: {told:?}");
            assert!(told.unwrap_or_default().contains(problem.unwrap_or_default()), "{url}");
        }
    }
}
