//! The authority whose certificates are believed, and our own certificate, as some engines' URLs name them.

use lockhouse_core::{Error, Kind, Result};

use crate::url::EngineUrl;

/// What is in the file of the option `ca`, if there is one. It makes sense with the scheme for TLS alone.
pub(crate) fn of(url: &EngineUrl, tls: &str) -> Result<Option<Vec<u8>>> {
    if let Some(option) = ["ca", "cert", "key"].into_iter().find(|option| url.option(option).is_some())
        && url.scheme() != tls
    {
        return Err(Error::new(Kind::Invalid, format!("the option {option:?} is for TLS, and this URL asks for none"))
            .help(format!("write {tls}://…")));
    }
    url.file("ca")
}

/// What is in the files of the options `cert` and `key`, if they are there.
pub(crate) fn identity(url: &EngineUrl) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    match (url.file("cert")?, url.file("key")?) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        _ => Err(Error::new(Kind::Invalid, "a certificate is nothing without its key, and the other way round")
            .help("write ?cert=client.crt&key=client.key")),
    }
}
