//! What the URLs of engines that keep their lines in a database's tables have in common.

use lockhouse_core::{Error, Kind, Result};

use crate::url::EngineUrl;

/// Whether tables that are not there may be created, which they may unless the URL says no.
pub(crate) fn create(url: &EngineUrl) -> Result<bool> {
    match url.option("create") {
        None | Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(other) => Err(Error::new(Kind::Invalid, format!("the option create cannot be {other:?}"))
            .help("write ?create=yes or ?create=no")),
    }
}
