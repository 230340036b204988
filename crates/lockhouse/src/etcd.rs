//! From a URL to etcd.

use std::sync::Arc;

use lockhouse_core::{Connector, Error, Kind, Result};
use lockhouse_etcd::Etcd;

use crate::url::EngineUrl;

pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(&["prefix", "ca"])?;
    let etcd = Etcd::at(url.rest())?;
    let etcd = url.option("prefix").map_or(Ok(etcd.clone()), |prefix| etcd.prefix(prefix))?;
    let authority = url.option("ca").map(read_file).transpose()?;
    Ok(Arc::new(match url.scheme() {
        "etcds" => etcd.tls(authority.as_deref()),
        _ if authority.is_some() => {
            return Err(Error::new(Kind::Invalid, "the option \"ca\" is for TLS, and this URL asks for none")
                .help("write etcds://…"));
        }
        _ => etcd,
    }))
}

fn read_file(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::new(Kind::Invalid, format!("the file {path:?} with the authority's certificate cannot be read"))
            .because(error)
    })
}
