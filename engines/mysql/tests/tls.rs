//! Encrypted connections, with certificates of our own making.

mod servers;

use std::time::Duration;

use lockhouse_core::{Kind, Locks, Result};
use lockhouse_mysql::{Hold, Mysql, Tls};
use lockhouse_testkit::Authority;
use servers::{Server, number, shared};

fn trusting(authority: &Authority) -> Tls {
    Tls::new().ca(authority.path("ca.crt").as_ref()).unwrap()
}

async fn lock(mysql: Mysql, tls: &Tls) -> Result<()> {
    let locks = Locks::new(mysql.encrypted(tls)).await?;
    locks.mutex("x").ttl(Duration::from_secs(10)).lock().await?.release().await.map(drop)
}

fn encrypted(authority: &Authority) -> Server {
    let file = |option: &str, name: &str| format!("--{option}={}", authority.path(name));
    let options = [file("ssl-ca", "ca.crt"), file("ssl-cert", "server.crt"), file("ssl-key", "server.key")];
    Server::start(&options.each_ref().map(String::as_str))
}

#[tokio::test]
async fn a_server_is_believed_that_has_a_certificate_of_our_authority_and_no_other() {
    let authority = Authority::new();
    let server = encrypted(&authority);
    let at = || Mysql::at(&server.address()).unwrap();
    lock(at(), &trusting(&authority)).await.unwrap();
    let error = lock(at(), &trusting(&Authority::new())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    lock(at(), &Tls::new()).await.expect_err("no public authority knows it");
    // Who asks for no more than encryption is told of nothing.
    lock(at(), &Tls::unverified()).await.unwrap();
    let plain = lock(Mysql::at(&shared()).unwrap(), &Tls::unverified()).await.unwrap_err();
    assert_eq!(plain.kind(), Kind::Unreachable, "a server without TLS is not spoken to in plain text: {plain}");
}

#[tokio::test]
async fn every_connection_is_encrypted_however_locks_are_held() {
    let authority = Authority::new();
    let server = encrypted(&authority);
    let address = server.address();
    for hold in [Hold::Lease, Hold::Session, Hold::Row] {
        let mysql = Mysql::at(&address).unwrap().hold(hold).encrypted(&trusting(&authority));
        let locks = Locks::new(mysql).await.unwrap();
        let guard = locks.mutex("x").lock().await.unwrap();
        let encrypted = "SELECT VARIABLE_VALUE > '0' FROM information_schema.GLOBAL_STATUS \
                         WHERE VARIABLE_NAME = 'SSL_ACCEPTS'";
        assert_eq!(number(&address, encrypted).await, 1);
        guard.release().await.unwrap();
        locks.close(Duration::from_secs(10)).await.unwrap();
    }
    // The account may use nothing else from here on, and the locks do not notice.
    servers::tell(&address, "ALTER USER root@'127.0.0.1' REQUIRE SSL").await;
    let mysql = Mysql::at(&address).unwrap().hold(Hold::Session).encrypted(&trusting(&authority));
    let locks = Locks::new(mysql).await.unwrap();
    locks.mutex("y").lock().await.unwrap().release().await.unwrap();
    let error = Locks::new(Mysql::at(&address).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
}
