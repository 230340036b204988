//! Accounts and TLS.

mod servers;

use std::time::Duration;

use lockhouse_core::{Error, Kind, Locks};
use lockhouse_testkit::Authority;
use lockhouse_zookeeper::ZooKeeper;
use servers::{Servers, shared};

const SESSION: Duration = Duration::from_secs(6);

async fn connect(zookeeper: ZooKeeper) -> Result<Locks, Error> {
    Locks::new(zookeeper.session(SESSION).unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_signs_in_keeps_others_out() {
    let root = format!("/access-{:08x}", rand::random::<u32>());
    let at = async |address: &str| connect(ZooKeeper::at(&format!("{address}{root}")).unwrap()).await.unwrap();
    let account = shared().replacen("//", "//alice:secret@", 1);
    let alice = at(&account).await;
    let guard = alice.mutex("a").lock().await.unwrap();
    for stranger in [at(&shared()).await, at(&account.replace("secret", "wrong")).await] {
        let error = stranger.mutex("a").try_lock().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Denied, "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
    guard.check().unwrap();
    assert!(at(&account).await.mutex("a").try_lock().await.unwrap().is_none(), "the same account sees it");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_work_through_tls_and_not_with_another_authority() {
    let [authority, another] = [Authority::new(), Authority::new()];
    let [pem, other] = [&authority, &another].map(|authority| std::fs::read(authority.path("ca.crt")).unwrap());
    // The server reads its key anew with each connection.
    let (_servers, port, _authority) = tokio::task::spawn_blocking(move || {
        let (servers, port) = Servers::start_secured(&authority);
        (servers, port, authority)
    })
    .await
    .unwrap();
    let at = |name: &str| ZooKeeper::at(&format!("//alice:secret@{name}:{port}/locks")).unwrap();
    let (first, second) = tokio::join!(
        connect(at("127.0.0.1").tls(Some(&pem)).unwrap()),
        connect(at("localhost").tls(Some(&pem)).unwrap()),
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    // Held for longer than its lease, waited for, and handed over.
    let ttl = Duration::from_secs(1);
    let guard = first.mutex("a").ttl(ttl).lock().await.unwrap();
    let mutex = second.mutex("a");
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(ttl * 2, &mut waiter).await.is_err(), "it is held");
    guard.release().await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), waiter).await.expect("its turn").unwrap().release().await.unwrap();
    let facts = first.checkup().await.unwrap().facts;
    assert!(facts.iter().any(|fact| fact.what.ends_with("mode") && fact.value == "standalone"), "{facts:?}");
    let error = connect(at("127.0.0.1").tls(Some(&other)).unwrap()).await.expect_err("nobody we believe");
    let because = std::error::Error::source(&error).expect("there is a reason").to_string();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(because.contains("certificate"), "{because}");
    assert_eq!(connect(at("127.0.0.1")).await.expect_err("without TLS").kind(), Kind::Unreachable);
}
