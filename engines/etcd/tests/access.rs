//! Accounts and TLS.

mod servers;

use std::time::Duration;

use lockhouse_core::{Connector, Error, Kind, Locks, Release, Side};
use lockhouse_etcd::Etcd;
use lockhouse_testkit::Authority;
use servers::{Cluster, etcdctl};

/// Why a client cannot take a lock.
async fn refused(etcd: Etcd) -> Error {
    let locks = match Locks::new(etcd).await {
        Ok(locks) => locks,
        Err(error) => return error,
    };
    locks.mutex("a").try_lock().await.expect_err("it is refused")
}

/// What is in a file of an authority's.
fn read(authority: &Authority, file: &str) -> Vec<u8> {
    std::fs::read(authority.path(file)).unwrap()
}

/// A lock is held past its lease, and handed over to who waits for it.
async fn works(locks: &Locks) {
    // So short a lease that it is renewed, and nobody looks before the watch tells.
    let ttl = Duration::from_secs(2);
    let guard = locks.mutex("a").ttl(ttl).lock().await.unwrap();
    assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
    let mutex = locks.mutex("a").ttl(ttl);
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(ttl * 2, &mut waiter).await.is_err(), "it is held");
    guard.check().expect("it is renewed");
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
    let next = tokio::time::timeout(Duration::from_secs(10), waiter).await.expect("its turn").unwrap();
    assert_eq!(next.release().await.unwrap(), Release::Freed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_with_rights_on_the_prefix_is_enough_and_nothing_less() {
    let cluster = Cluster::start(1);
    let address = cluster.address();
    for words in [
        "user add root:secret",
        "user grant-role root root",
        "role add locks",
        "role grant-permission locks --prefix=true readwrite lockhouse/",
        "user add alice:p@ss",
        "user grant-role alice locks",
        "user add bob:nothing",
        "auth enable",
    ] {
        let done = etcdctl(&address, &words.split(' ').collect::<Vec<_>>());
        assert!(done.status.success(), "{words}: {done:?}");
    }
    let hosts = address.trim_start_matches('/');
    for account in ["", "alice:wrong@", "nobody:p@ss@", "bob:nothing@"] {
        let error = refused(Etcd::at(&format!("//{account}{hosts}")).unwrap()).await;
        assert_eq!(error.kind(), Kind::Denied, "{account}: {error}");
        assert!(!error.to_string().contains("p@ss"), "{error}");
    }
    let alice = || Etcd::at(&format!("//alice:p@ss@{hosts}")).unwrap();
    assert_eq!(refused(alice().prefix("elsewhere/").unwrap()).await.kind(), Kind::Denied);

    let locks = Locks::new(alice()).await.unwrap();
    works(&locks).await;
    locks.cell("a").write("b").await.unwrap();
    let engine = alice().connect(Side::Front).await.unwrap();
    assert!(!engine.checkup().await.unwrap().facts.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_where_there_are_none_is_told() {
    let address = servers::shared();
    let error = refused(Etcd::at(&format!("//alice:secret@{}", address.trim_start_matches('/'))).unwrap()).await;
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(error.to_string().contains("no accounts"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_work_through_tls_and_not_with_another_authority() {
    let [authority, another] = [Authority::new(), Authority::new()];
    let cluster = Cluster::start_secured(&authority, &[]);
    let [pem, another] = [&authority, &another].map(|authority| read(authority, "ca.crt"));
    let locks = Locks::new(Etcd::at(&cluster.address()).unwrap().tls(Some(&pem))).await.unwrap();
    works(&locks).await;
    let etcd = || Etcd::at(&cluster.address()).unwrap();
    for stranger in [etcd().tls(None), etcd().tls(Some(&another)), etcd()] {
        let error = refused(stranger).await;
        assert!(matches!(error.kind(), Kind::Unreachable | Kind::TimedOut), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_ask_for_a_certificate_let_in_who_has_one() {
    let [authority, another] = [Authority::new(), Authority::new()];
    let settings = [("client-cert-auth", "true"), ("trusted-ca-file", &authority.path("ca.crt"))];
    let cluster = Cluster::start_secured(&authority, &settings);
    let etcd = || Etcd::at(&cluster.address()).unwrap().tls(Some(&read(&authority, "ca.crt")));
    let with = |from: &Authority| etcd().identity(&read(from, "client.crt"), &read(from, "client.key"));
    let locks = Locks::new(with(&authority)).await.unwrap();
    assert_eq!(locks.mutex("a").lock().await.unwrap().release().await.unwrap(), Release::Freed);
    for stranger in [etcd(), with(&another)] {
        let error = refused(stranger).await;
        assert!(matches!(error.kind(), Kind::Unreachable | Kind::TimedOut), "{error}");
    }
}
