//! Certificates of our own making, for servers that are spoken to through TLS.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A certificate authority, with a certificate for a server on this machine and one for a client: in its folder are
/// `ca.crt`, `server.crt`, `server.key`, `client.crt` and `client.key`.
#[derive(Debug)]
pub struct Authority(TempDir);

impl Authority {
    /// A new one, that nobody trusts yet.
    ///
    /// # Panics
    /// When OpenSSL's command is not installed.
    #[must_use]
    pub fn new() -> Self {
        let authority = Self(TempDir::new().expect("there is a temporary folder"));
        authority.make("ca", &["-subj", "/CN=an authority", "-addext", "basicConstraints=critical,CA:TRUE"]);
        let (ca, key) = (authority.path("ca.crt"), authority.path("ca.key"));
        for name in ["server", "client"] {
            authority.make(
                name,
                &[
                    "-subj",
                    "/CN=somebody",
                    "-addext",
                    "subjectAltName=IP:127.0.0.1,DNS:localhost",
                    "-addext",
                    "basicConstraints=critical,CA:FALSE",
                    "-CA",
                    &ca,
                    "-CAkey",
                    &key,
                ],
            );
        }
        authority
    }

    /// Where a file of its is, such as `ca.crt`.
    ///
    /// # Panics
    /// When the temporary folder's name is no text.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.file(name).into_os_string().into_string().expect("the path is text")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn make(&self, name: &str, more: &[&str]) {
        let (key, certificate) = (self.file(&format!("{name}.key")), self.file(&format!("{name}.crt")));
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        command.args(["-days", "2"]).args(more).arg("-keyout").arg(key).arg("-out").arg(certificate);
        let made = command.output().expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
