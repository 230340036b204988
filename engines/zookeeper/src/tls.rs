//! Encrypted connections: whom we believe.

use std::fmt;
use std::io;
use std::sync::Arc;

use lockhouse_core::Result;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::invalid;

/// Whose certificates are believed.
#[derive(Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Trusts these authorities (PEM), or those that the operating system trusts.
    pub(crate) fn of(authorities: Option<&[u8]>) -> Result<Self> {
        let help = "give the path of a PEM file with the certificate of the servers' authority: ?ca=…";
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.ok().and_then(|certificate| roots.add(certificate).ok());
                    certificate.ok_or_else(|| invalid("the authority's certificate cannot be read", help))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(invalid("there is no authority whose certificates could be believed", help));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| invalid(&error.to_string(), "this is a bug"))?;
        Ok(Self(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
    }

    /// Connects to `host:port`, and makes sure that it is who it says.
    pub(crate) async fn connect(&self, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_no_authority() {
        for pem in [&b""[..], b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = Trust::of(Some(pem)).unwrap_err();
            assert!(error.to_string().contains("ca="), "{error}");
        }
    }
}
