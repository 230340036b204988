//! Encrypted connections: whom we believe, and who we are.

use std::path::Path;

use lockhouse_core::{Error, Kind, Result};
use redis::{ClientTlsConfig, TlsCertificates};

use crate::error::ENGINE;

/// How a connection is encrypted. Without more, whoever the operating system trusts is trusted.
///
/// ```no_run
/// use lockhouse_redis::{Redis, Tls};
///
/// let redis = Redis::encrypted("//redis.example.org", Tls::new().ca("/etc/redis/ca.crt".as_ref())?)?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tls {
    certificates: TlsCertificates,
}

impl Default for Tls {
    fn default() -> Self {
        Self { certificates: TlsCertificates { client_tls: None, root_cert: None } }
    }
}

impl Tls {
    /// Trusts whoever the operating system trusts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts whoever has a certificate of the authority whose own is in this file (PEM), and nobody else.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when the file cannot be read.
    pub fn ca(mut self, file: &Path) -> Result<Self> {
        self.certificates.root_cert = Some(read(file)?);
        Ok(self)
    }

    /// Shows the server this certificate, with its key (PEM both).
    ///
    /// # Errors
    /// [`Kind::Invalid`] when a file cannot be read.
    pub fn client(mut self, certificate: &Path, key: &Path) -> Result<Self> {
        let (client_cert, client_key) = (read(certificate)?, read(key)?);
        self.certificates.client_tls = Some(ClientTlsConfig { client_cert, client_key });
        Ok(self)
    }

    /// What the driver needs. It leaves the choice of the cryptography to the process.
    pub(crate) fn certificates(&self) -> TlsCertificates {
        // Who chose before us has chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
        self.certificates.clone()
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| {
        Error::new(Kind::Invalid, format!("{} cannot be read", file.display()))
            .engine(ENGINE)
            .help("give the path of a PEM file that this process may read")
            .because(error)
    })
}
