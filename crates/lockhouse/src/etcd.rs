//! From a URL to etcd.

use std::sync::Arc;

use lockhouse_core::{Connector, Result};
use lockhouse_etcd::Etcd;

use crate::authority;
use crate::url::EngineUrl;

pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(&["prefix", "ca"])?;
    let etcd = Etcd::at(url.rest())?;
    let etcd = url.option("prefix").map_or(Ok(etcd.clone()), |prefix| etcd.prefix(prefix))?;
    let authority = authority::of(url, "etcds")?;
    Ok(Arc::new(if url.scheme() == "etcds" { etcd.tls(authority.as_deref()) } else { etcd }))
}
