//! The authority whose certificates are believed, as some engines' URLs name it.

use lockhouse_core::{Error, Kind, Result};

use crate::url::EngineUrl;

/// What is in the file of the option `ca`, if there is one. It makes sense with the scheme for TLS alone.
pub(crate) fn of(url: &EngineUrl, tls: &str) -> Result<Option<Vec<u8>>> {
    if url.option("ca").is_some() && url.scheme() != tls {
        return Err(Error::new(Kind::Invalid, "the option \"ca\" is for TLS, and this URL asks for none")
            .help(format!("write {tls}://…")));
    }
    url.file("ca")
}
