//! From a URL to etcd.

use std::sync::Arc;

use lockhouse_core::{Connector, Error, Kind, Result};
use lockhouse_etcd::Etcd;

use crate::url::EngineUrl;

pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(&["prefix", "ca"])?;
    let etcd = Etcd::at(url.rest())?;
    let etcd = url.option("prefix").map_or(Ok(etcd.clone()), |prefix| etcd.prefix(prefix))?;
    let authority = url.file("ca")?;
    Ok(Arc::new(match url.scheme() {
        "etcds" => etcd.tls(authority.as_deref()),
        _ if authority.is_some() => {
            return Err(Error::new(Kind::Invalid, "the option \"ca\" is for TLS, and this URL asks for none")
                .help("write etcds://…"));
        }
        _ => etcd,
    }))
}
