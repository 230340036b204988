//! Encrypted connections, with certificates of our own making.

mod servers;

use std::time::Duration;

use lockhouse_core::{Kind, Locks, Result};
use lockhouse_postgres::{Hold, Postgres, Tls};
use lockhouse_testkit::Authority;
use servers::subject::postgres;
use servers::{Server, shared, tell};

fn trusting(authority: &Authority) -> Tls {
    Tls::new().ca(authority.path("ca.crt").as_ref()).unwrap()
}

async fn lock(postgres: Postgres, tls: &Tls) -> Result<()> {
    let locks = Locks::new(postgres.encrypted(tls)?).await?;
    locks.mutex("x").ttl(Duration::from_secs(2)).lock().await?.release().await.map(drop)
}

#[tokio::test]
async fn a_server_is_believed_that_has_a_certificate_of_our_authority_and_no_other() {
    let authority = Authority::new();
    let server = Server::start_encrypted(&authority);
    let at = || Postgres::at(&server.address()).unwrap();
    lock(at(), &trusting(&authority)).await.unwrap();
    let error = lock(at(), &trusting(&Authority::new())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    lock(at(), &Tls::new()).await.expect_err("the operating system does not know it");
    // Who asks for no more than encryption is told of nothing.
    lock(at(), &Tls::unverified()).await.unwrap();
    let plain = lock(Postgres::at(&shared()).unwrap(), &Tls::unverified()).await.unwrap_err();
    assert_eq!(plain.kind(), Kind::Unreachable, "{plain}");
    assert!(plain.to_string().contains("TLS"), "{plain}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_is_encrypted_however_locks_are_held() {
    let authority = Authority::new();
    let server = Server::start_encrypted(&authority);
    let tls = trusting(&authority);
    for hold in [Hold::Lease, Hold::Session, Hold::Row] {
        let client = async || Locks::new(postgres(&server.address(), hold).encrypted(&tls).unwrap()).await.unwrap();
        let (one, other) = (client().await, client().await);
        let guard = one.mutex("x").lock().await.unwrap();
        let mutex = other.mutex("x");
        let (next, _) = tokio::join!(mutex.lock(), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                         WHERE application_name LIKE 'lockhouse%' AND NOT ssl";
            assert_eq!(tell(&server.address(), plain).await, ["0"], "{hold:?}");
            guard.release().await.unwrap();
        });
        next.unwrap().release().await.unwrap();
    }
}
