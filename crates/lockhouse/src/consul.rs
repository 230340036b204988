//! From a URL to Consul.

use std::sync::Arc;

use lockhouse_consul::Consul;
use lockhouse_core::{Connector, Result};

use crate::authority;
use crate::url::EngineUrl;

pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(&["prefix", "token", "dc", "session", "node", "lock-delay", "behavior", "ca"])?;
    let mut consul = Consul::at(url.rest())?;
    if let Some(prefix) = url.option("prefix") {
        consul = consul.prefix(prefix)?;
    }
    if let Some(token) = url.option("token") {
        consul = consul.token(token);
    }
    if let Some(datacenter) = url.option("dc") {
        consul = consul.datacenter(datacenter);
    }
    if let Some(session) = url.duration("session")? {
        consul = consul.session(session)?;
    }
    if let Some(node) = url.option("node") {
        consul = consul.node(node);
    }
    if let Some(delay) = url.duration("lock-delay")? {
        consul = consul.lock_delay(delay)?;
    }
    if let Some(behavior) = url.option("behavior") {
        consul = consul.behavior(behavior.parse()?);
    }
    let authority = authority::of(url, "consuls")?;
    Ok(Arc::new(if url.scheme() == "consuls" { consul.tls(authority.as_deref()) } else { consul }))
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Kind;

    use super::*;

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        let read = |url: &str| connector(&EngineUrl::parse(url).unwrap());
        assert!(read("consul://:s3cret@h1:8500,h2?prefix=&dc=dc1&session=30s&node=n&lock-delay=1s&token=x").is_ok());
        assert!(read("consuls://h1?behavior=release").is_ok());
        for (url, what) in [
            ("consul://h?colour=red", "it has prefix, token, dc, session, node, lock-delay, behavior, ca"),
            ("consul://h?session=1s", "session=15s"),
            ("consul://h?lock-delay=2m", "lock-delay=1s"),
            ("consul://h?behavior=keep", "behavior=delete or behavior=release"),
            ("consuls://h?ca=/no/such/file", "cannot be read"),
            ("consul://h?ca=/no/such/file", "write consuls://"),
            ("consul://:s3cret@h:port", "not a port"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(what) && !error.to_string().contains("s3cret"), "{error}");
        }
    }
}
