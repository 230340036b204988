//! From a URL to etcd.

use std::sync::Arc;

use lockhouse_core::{Connector, Result};
use lockhouse_etcd::Etcd;

use crate::authority;
use crate::url::EngineUrl;

pub(crate) fn connector(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(&["prefix", "ca", "cert", "key"])?;
    let etcd = Etcd::at(url.rest())?;
    let etcd = url.option("prefix").map_or(Ok(etcd.clone()), |prefix| etcd.prefix(prefix))?;
    let authority = authority::of(url, "etcds")?;
    let etcd = if url.scheme() == "etcds" { etcd.tls(authority.as_deref()) } else { etcd };
    Ok(Arc::new(match authority::identity(url)? {
        Some((certificate, key)) => etcd.identity(&certificate, &key),
        None => etcd,
    }))
}

#[cfg(test)]
mod tests {
    use lockhouse_core::Kind;

    use super::*;

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        let read = |url: &str| connector(&EngineUrl::parse(url).unwrap());
        assert!(read("etcd://alice:s3cret@h1:2379,h2,h3?prefix=").is_ok());
        assert!(read("etcds://h1").is_ok());
        let authority = tempfile::NamedTempFile::new().unwrap();
        let file = authority.path().display();
        assert!(read(&format!("etcds://h1?ca={file}&cert={file}&key={file}")).is_ok());
        assert!(read(&format!("etcds://h1?cert={file}")).is_err_and(|error| error.to_string().contains("its key")));
        for (url, what) in [
            ("etcd://h?colour=red", "it has prefix, ca, cert, key"),
            ("etcds://h?ca=/no/such/file", "cannot be read"),
            ("etcd://h?ca=/no/such/file", "write etcds://"),
            ("etcd://h?cert=/no/such/file", "write etcds://"),
            ("etcd://alice:s3cret@h:port", "not a port"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(what) && !error.to_string().contains("s3cret"), "{error}");
        }
    }
}
