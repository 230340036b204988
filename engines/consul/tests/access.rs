//! Tokens and TLS.

mod servers;

use std::time::Duration;

use lockhouse_consul::Consul;
use lockhouse_core::{Error, Kind, Locks, Severity};
use lockhouse_testkit::{Authority, Sides, free_port};
use servers::{Cluster, connector, http_with, shared};

const MASTER: &str = "11111111-2222-3333-4444-555555555555";

/// Why a client cannot take a lock.
async fn refused(consul: Consul) -> Error {
    let locks = match Locks::new(consul).await {
        Ok(locks) => locks,
        Err(error) => return error,
    };
    locks.mutex("a").try_lock().await.expect_err("it is refused")
}

/// Asks as the one who may do everything, and takes a value out of the answer.
fn made(port: u16, path: &str, body: &str, key: &str) -> String {
    let header = format!("X-Consul-Token: {MASTER}\r\n");
    for _ in 0..200 {
        // The rules are there a moment after the leader.
        if let Some((200, answer)) = http_with(port, "PUT", path, body, &header) {
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            return answer[key].as_str().unwrap().to_owned();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{path} is not answered");
}

/// A token with these rules.
fn token(port: u16, name: &str, rules: &str) -> String {
    let policy = serde_json::json!({ "Name": name, "Rules": rules }).to_string();
    made(port, "/v1/acl/policy", &policy, "ID");
    let token = serde_json::json!({ "Policies": [{ "Name": name }] }).to_string();
    made(port, "/v1/acl/token", &token, "SecretID")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_with_rights_on_the_prefix_is_enough_and_nothing_less() {
    let rules = format!(
        r#"-hcl=acl {{ enabled = true default_policy = "deny" tokens {{ master = "{MASTER}" agent = "{MASTER}" }} }}"#
    );
    let cluster = tokio::task::spawn_blocking(move || Cluster::start_with(1, &[rules])).await.unwrap();
    let (address, port) = (cluster.address(), cluster.members[0].port);
    let (keys, sessions) =
        (r#"key_prefix "lockhouse/" { policy = "write" }"#, r#"session_prefix "" { policy = "write" }"#);
    let enough = token(port, "locks", &format!("{keys} {sessions}"));
    let only_sessions = token(port, "sessions", sessions);
    let only_keys = token(port, "keys", keys);
    let at = |token: &str| Consul::at(&address.replace("//", &format!("//:{token}@"))).unwrap();
    for token in ["", "no-such-token", &only_sessions, &only_keys] {
        let error = refused(at(token)).await;
        assert_eq!(error.kind(), Kind::Denied, "{error}");
        assert!(token.is_empty() || !error.to_string().contains(token), "{error}");
    }
    assert_eq!(refused(at(&enough).prefix("elsewhere/").unwrap()).await.kind(), Kind::Denied);

    // It need not be able to look at the agent: without that nothing is known of its datacenter.
    let locks = Locks::new(at("").token(&enough).datacenter("dc1").session(servers::SESSION).unwrap()).await.unwrap();
    let guard = locks.mutex("a").lock().await.unwrap();
    let mutex = locks.mutex("a");
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(servers::SESSION, &mut waiter).await.is_err(), "it is held");
    guard.check().expect("it is renewed");
    guard.release().await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), waiter).await.expect("its turn").unwrap().release().await.unwrap();
    locks.cell("a").write("b").await.unwrap();
    let checkup = Sides::of(&at(&enough)).await.front.checkup().await.unwrap();
    for what in ["may not look at the agent", "may not look at the servers"] {
        assert!(checkup.findings.iter().any(|finding| finding.what.contains(what)), "{checkup:?}");
    }
    let checkup = Sides::of(&at(MASTER)).await.front.checkup().await.unwrap();
    assert!(checkup.facts.iter().any(|fact| fact.value == "on, default deny"), "{checkup:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_work_through_tls_and_not_with_another_authority() {
    let authority = Authority::new();
    let [key, certificate, ca] = ["server.key", "server.crt", "ca.crt"].map(|file| authority.path(file));
    let port = free_port();
    let settings = [
        format!("-hcl=ports {{ https = {port} }}"),
        format!(r#"-hcl=key_file = "{key}" cert_file = "{certificate}" ca_file = "{ca}""#),
    ];
    let cluster = tokio::task::spawn_blocking(move || Cluster::start_with(1, &settings)).await.unwrap();
    let address = format!("//127.0.0.1:{port}");
    let secured = |pem: Option<&[u8]>| Consul::at(&address).unwrap().tls(pem);
    let pem = std::fs::read(&ca).unwrap();
    let locks = Locks::new(secured(Some(&pem))).await.unwrap();
    let guard = locks.mutex("a").lock().await.unwrap();
    let plain = Locks::new(Consul::at(&cluster.address()).unwrap()).await.unwrap();
    assert!(plain.mutex("a").try_lock().await.unwrap().is_none(), "the same locks");
    guard.release().await.unwrap();
    let other = std::fs::read(Authority::new().path("ca.crt")).unwrap();
    for stranger in [secured(Some(&other)), secured(None)] {
        assert_eq!(refused(stranger).await.kind(), Kind::Unreachable);
    }
    let error = refused(Consul::at(&address).unwrap()).await;
    assert!(error.to_string().contains("consuls://"), "{error}");
}

#[tokio::test]
async fn doctor_hears_of_the_servers_and_their_settings() {
    let checkup = Sides::of(&connector(&shared(), "")).await.front.checkup().await.unwrap();
    let fact = |what: &str| checkup.facts.iter().find(|fact| fact.what == what).expect("told").value.clone();
    assert!(fact("version").starts_with("1."), "{checkup:?}");
    assert!(fact("leader").contains(':') && fact("servers").contains(&fact("leader")), "{checkup:?}");
    assert_eq!((fact("shortest session").as_str(), fact("largest value").as_str()), ("1s", "524288 bytes"));
    assert!(checkup.findings.iter().all(|finding| finding.severity == Severity::Advice), "{checkup:?}");
}
