//! Encrypted connections, with certificates of our own making.

mod servers;

use std::path::Path;
use std::time::Duration;

use lockhouse_core::{Kind, Locks};
use lockhouse_redis::{Redis, Tls};
use lockhouse_testkit::{Authority, free_port};
use servers::Server;

/// A server that speaks TLS on a port beside its plain one, and says which.
fn server(authority: &Authority, clients: &str) -> (Server, u16) {
    let port = free_port();
    let options = [
        "--tls-port".into(),
        port.to_string(),
        "--tls-cert-file".into(),
        authority.path("server.crt"),
        "--tls-key-file".into(),
        authority.path("server.key"),
        "--tls-ca-cert-file".into(),
        authority.path("ca.crt"),
        "--tls-auth-clients".into(),
        clients.into(),
    ];
    (Server::start(&options.each_ref().map(String::as_str)), port)
}

fn tls(authority: &Authority) -> Tls {
    Tls::new().ca(authority.path("ca.crt").as_ref()).unwrap()
}

async fn lock(port: u16, tls: Tls) -> lockhouse_core::Result<()> {
    let locks = Locks::new(Redis::encrypted(&format!("//127.0.0.1:{port}"), tls)?).await?;
    locks.mutex("x").ttl(Duration::from_secs(2)).lock().await?.release().await.map(drop)
}

#[tokio::test]
async fn a_server_is_believed_that_has_a_certificate_of_our_authority_and_no_other() {
    let authority = Authority::new();
    let (_server, port) = server(&authority, "no");
    lock(port, tls(&authority)).await.unwrap();
    let error = lock(port, tls(&Authority::new())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    lock(port, Tls::new()).await.expect_err("the operating system does not know it");
}

#[tokio::test]
async fn a_server_that_wants_to_see_a_certificate_is_shown_one() {
    let authority = Authority::new();
    let (_server, port) = server(&authority, "yes");
    let shown =
        tls(&authority).client(authority.path("client.crt").as_ref(), authority.path("client.key").as_ref()).unwrap();
    lock(port, shown).await.unwrap();
    lock(port, tls(&authority)).await.expect_err("it is shown nothing");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_a_mistake() {
    let error = Tls::new().ca(Path::new("/nowhere/ca.crt")).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("/nowhere/ca.crt"), "{error}");
}
