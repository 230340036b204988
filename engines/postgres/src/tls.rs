//! Encrypted connections: whom we believe.

use std::path::Path;
use std::sync::Arc;

use lockhouse_core::{Error, Kind, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::ENGINE;

/// How a connection is encrypted. Without more, a server is believed that has a certificate for its name from somebody
/// whom the operating system trusts.
///
/// ```no_run
/// use lockhouse_postgres::{Postgres, Tls};
///
/// let tls = Tls::new().ca("/etc/postgresql/ca.crt".as_ref())?;
/// let postgres = Postgres::at("//alice:secret@db.example.org/shop")?.encrypted(&tls)?;
/// # Ok::<(), lockhouse_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Tls {
    authority: Option<Vec<CertificateDer<'static>>>,
    unverified: bool,
}

impl Tls {
    /// Trusts whoever the operating system trusts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Encrypts, and believes every server, as PostgreSQL's `sslmode=require` does: who is between us and the server
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
        let cannot = || invalid(format!("the file {path:?} with the authority's certificate cannot be read"));
        let found = CertificateDer::pem_file_iter(path).map_err(|error| cannot().because(error))?;
        let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| cannot().because(error))?;
        if found.is_empty() {
            return Err(invalid(format!("there is no certificate in {path:?}")));
        }
        self.authority = Some(found);
        Ok(self)
    }

    /// What the driver needs to know.
    pub(crate) fn config(&self) -> Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid("TLS cannot be set up".into()).because(error))?;
        if self.unverified {
            let anybody = Arc::new(Anybody(provider));
            return Ok(builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth());
        }
        Ok(builder.with_root_certificates(self.roots()?).with_no_client_auth())
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &self.authority {
            Some(authority) => {
                for certificate in authority {
                    let added = roots.add(certificate.clone());
                    added.map_err(|error| invalid("an authority's certificate is none".into()).because(error))?;
                }
            }
            // What cannot be read of them is left out: others may be enough.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        Ok(roots)
    }
}

fn invalid(what: String) -> Error {
    Error::new(Kind::Invalid, what).help("give a file with certificates in PEM form").engine(ENGINE)
}

/// Believes every certificate, if the server has its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
