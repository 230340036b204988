//! From a URL to ZooKeeper.

use std::sync::Arc;

use lockhouse_core::{Connector, Result};
use lockhouse_zookeeper::ZooKeeper;

use crate::authority;
use crate::url::EngineUrl;

pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(&["prefix", "session", "ca"])?;
    let mut zookeeper = ZooKeeper::at(url.rest())?;
    if let Some(session) = url.duration("session")? {
        zookeeper = zookeeper.session(session)?;
    }
    let authority = authority::of(url, "zookeepers")?;
    if url.scheme() == "zookeepers" {
        zookeeper = zookeeper.tls(authority.as_deref())?;
    }
    Ok(Arc::new(zookeeper))
}
