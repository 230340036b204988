//! Encrypted connections: whom we believe.

use std::path::Path;

use lockhouse_core::{Error, Kind, Result};
use mysql_async::SslOpts;

use crate::error::ENGINE;

/// How a connection is encrypted. Without more, a server is believed that has a certificate for its name from one of
/// the public authorities.
///
/// ```no_run
/// use lockhouse_mysql::{Mysql, Tls};
///
/// let tls = Tls::new().ca("/etc/mysql/ca.pem".as_ref())?;
/// let mysql = Mysql::at("//alice:secret@db.example.org/shop")?.encrypted(&tls);
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Tls {
    authority: Option<Vec<u8>>,
    unverified: bool,
}

impl Tls {
    /// Trusts the public authorities.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Encrypts, and believes every server, as `REQUIRED` of MySQL's own clients does: who is between us and the server
    /// can read everything.
    #[must_use]
    pub fn unverified() -> Self {
        Self { unverified: true, ..Self::default() }
    }

    /// Trusts the authorities in this file, in PEM form, and nobody else.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when the file cannot be read, or has no certificate in it.
    pub fn ca(mut self, path: &Path) -> Result<Self> {
        let read = std::fs::read(path).map_err(|error| {
            invalid(format!("the file {path:?} with the authority's certificate cannot be read")).because(error)
        })?;
        if !String::from_utf8_lossy(&read).contains("-----BEGIN CERTIFICATE-----") {
            return Err(invalid(format!("there is no certificate in {path:?}")));
        }
        self.authority = Some(read);
        Ok(self)
    }

    /// What the driver needs to know.
    pub(crate) fn options(&self) -> SslOpts {
        let options = SslOpts::default().with_danger_accept_invalid_certs(self.unverified);
        match &self.authority {
            Some(authority) => {
                options.with_root_certs(vec![authority.clone().into()]).with_disable_built_in_roots(true)
            }
            None => options,
        }
    }
}

fn invalid(what: String) -> Error {
    Error::new(Kind::Invalid, what)
        .help("give a file in PEM form, such as sslrootcert=/etc/mysql/ca.pem")
        .engine(ENGINE)
}
