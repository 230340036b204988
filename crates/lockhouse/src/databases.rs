//! From a URL to the engines that keep their lines in a database's tables.

#[cfg(feature = "mysql")]
use std::sync::Arc;

#[cfg(feature = "mysql")]
use lockhouse_core::Connector;
use lockhouse_core::{Error, Kind, Result};

use crate::url::EngineUrl;

/// The options that it has.
#[cfg(feature = "mysql")]
const OPTIONS: &[&str] = &["prefix", "hold", "table", "create"];

#[cfg(feature = "mysql")]
pub(crate) fn mysql(url: &EngineUrl) -> Result<Arc<dyn Connector>> {
    url.only(OPTIONS)?;
    hold(url)?;
    let mysql = lockhouse_mysql::Mysql::at(url.rest())?;
    let mysql = url.option("table").map_or(Ok(mysql.clone()), |base| mysql.tables(base))?;
    Ok(Arc::new(mysql.create(create(url)?)))
}

/// How a lock is held: by a lease, which is the only way yet.
#[cfg(feature = "mysql")]
fn hold(url: &EngineUrl) -> Result<()> {
    match url.option("hold") {
        None | Some("lease") => Ok(()),
        Some(other) => {
            let what = format!("the engine {} cannot hold a lock by {other:?}", url.scheme());
            Err(Error::new(Kind::Unsupported, what).help("write ?hold=lease, or leave it out"))
        }
    }
}

/// Whether tables that are not there may be created, which they may unless the URL says no.
pub(crate) fn create(url: &EngineUrl) -> Result<bool> {
    match url.option("create") {
        None | Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(other) => Err(Error::new(Kind::Invalid, format!("the option create cannot be {other:?}"))
            .help("write ?create=yes or ?create=no")),
    }
}
