//! Encrypted connections, with certificates of our own making.

mod servers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lockhouse_core::{Kind, Locks};
use lockhouse_redis::{Redis, Tls};
use servers::{Server, free_port};
use tempfile::TempDir;

/// A certificate authority, and a certificate for this machine and for a client.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let authority = Self(tempfile::tempdir().unwrap());
        authority.make("ca", &["-subj", "/CN=an authority", "-addext", "basicConstraints=critical,CA:TRUE"]);
        let (ca, key) = (authority.path("ca.crt"), authority.path("ca.key"));
        let signed = ["-CA", ca.to_str().unwrap(), "-CAkey", key.to_str().unwrap()];
        for name in ["server", "client"] {
            let about = ["-subj", "/CN=somebody", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
            let no_authority = ["-addext", "basicConstraints=critical,CA:FALSE"];
            authority.make(name, &[&about[..], &no_authority, &signed].concat());
        }
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn make(&self, name: &str, more: &[&str]) {
        let (key, certificate) = (self.path(&format!("{name}.key")), self.path(&format!("{name}.crt")));
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]).args(more);
        let made = command.arg("-keyout").arg(key).arg("-out").arg(certificate).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// A server that speaks TLS on a port beside its plain one, and says which.
    fn server(&self, clients: &str) -> (Server, u16) {
        let port = free_port();
        let file = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let options = [
            "--tls-port".into(),
            port.to_string(),
            "--tls-cert-file".into(),
            file("server.crt"),
            "--tls-key-file".into(),
            file("server.key"),
            "--tls-ca-cert-file".into(),
            file("ca.crt"),
            "--tls-auth-clients".into(),
            clients.into(),
        ];
        (Server::start(&options.each_ref().map(String::as_str)), port)
    }

    fn tls(&self) -> Tls {
        Tls::new().ca(&self.path("ca.crt")).unwrap()
    }
}

async fn lock(port: u16, tls: Tls) -> lockhouse_core::Result<()> {
    let locks = Locks::new(Redis::encrypted(&format!("//127.0.0.1:{port}"), tls)?).await?;
    locks.mutex("x").ttl(Duration::from_secs(2)).lock().await?.release().await.map(drop)
}

#[tokio::test]
async fn a_server_is_believed_that_has_a_certificate_of_our_authority_and_no_other() {
    let authority = Authority::new();
    let (_server, port) = authority.server("no");
    lock(port, authority.tls()).await.unwrap();
    let error = lock(port, Authority::new().tls()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    lock(port, Tls::new()).await.expect_err("the operating system does not know it");
}

#[tokio::test]
async fn a_server_that_wants_to_see_a_certificate_is_shown_one() {
    let authority = Authority::new();
    let (_server, port) = authority.server("yes");
    let shown = authority.tls().client(&authority.path("client.crt"), &authority.path("client.key")).unwrap();
    lock(port, shown).await.unwrap();
    lock(port, authority.tls()).await.expect_err("it is shown nothing");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_a_mistake() {
    let error = Tls::new().ca(Path::new("/nowhere/ca.crt")).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("/nowhere/ca.crt"), "{error}");
}
