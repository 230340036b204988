//! What the doctor finds, each against a server that has it.

mod servers;

use lockhouse_core::{Checkup, Connector, Severity, Side};
use lockhouse_redis::Redis;
use servers::{Server, info, until};

async fn look(redis: Redis) -> Checkup {
    redis.connect(Side::Front).await.unwrap().checkup().await.unwrap()
}

async fn look_at(server: &Server) -> Checkup {
    look(Redis::at(&server.address()).unwrap()).await
}

/// How bad it is that is said with these words, if it is said.
fn said(checkup: &Checkup, words: &str) -> Option<Severity> {
    let mut findings = checkup.findings.iter().filter(|finding| finding.what.contains(words));
    let found = findings.next().map(|finding| finding.severity);
    assert!(findings.next().is_none(), "said twice: {checkup:?}");
    found
}

#[tokio::test]
async fn a_server_that_keeps_everything_has_nothing_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let server = Server::start(&["--dir", dir, "--appendonly", "yes", "--appendfsync", "always"]);
    let checkup = look_at(&server).await;
    assert_eq!(checkup.findings, [], "{checkup:?}");
    assert!(checkup.server_time.unwrap().as_secs() > 1_700_000_000);
    let version = info(&server.address(), "server", "redis_version").unwrap();
    assert_eq!((checkup.facts[0].what.as_str(), &checkup.facts[0].value), ("version", &version));
    server.tell("CONFIG SET appendfsync everysec");
    assert_eq!(said(&look_at(&server).await, "appendfsync is everysec"), Some(Severity::Advice));
}

#[tokio::test]
async fn a_server_without_a_disk_is_advised_to_have_one() {
    let server = Server::start(&[]);
    assert_eq!(said(&look_at(&server).await, "no append-only file"), Some(Severity::Advice));
}

#[tokio::test]
async fn a_policy_that_can_evict_a_lock_is_a_danger_once_memory_is_limited() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]);
    assert_eq!(said(&look_at(&server).await, "allkeys-lru"), Some(Severity::Advice));
    server.tell("CONFIG SET maxmemory 100mb");
    for policy in ["allkeys-lru", "volatile-ttl"] {
        server.tell(&format!("CONFIG SET maxmemory-policy {policy}"));
        assert_eq!(said(&look_at(&server).await, policy), Some(Severity::Danger));
    }
    server.tell("CONFIG SET maxmemory-policy noeviction");
    assert_eq!(said(&look_at(&server).await, "maxmemory"), None);
}

#[tokio::test]
async fn replicas_are_looked_at_from_both_ends() {
    let master = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start_anew(&["--replicaof", "127.0.0.1", &master.port.to_string()], &[]);
    let connected = || info(&master.address(), "replication", "slave0").is_some_and(|it| it.contains("online"));
    until("the replica is connected", connected);
    let asking_for = |replicas| look(Redis::at(&master.address()).unwrap().replicas(replicas));
    assert_eq!(said(&asking_for(0).await, "do not wait for them"), Some(Severity::Advice));
    assert_eq!(said(&asking_for(1).await, "replicas"), None);
    assert_eq!(said(&asking_for(2).await, "1 are connected: no lock can be had"), Some(Severity::Danger));
    assert_eq!(said(&look_at(&replica).await, "it is a replica"), Some(Severity::Danger));
}

#[tokio::test]
async fn an_account_that_may_run_no_scripts_is_a_danger() {
    let server = Server::start(&[]);
    server.tell("ACL SETUSER alice on >s3cret ~* &* +@all -eval");
    let redis = Redis::at(&format!("//alice:s3cret@127.0.0.1:{}", server.port)).unwrap();
    let checkup = look(redis).await;
    assert_eq!(said(&checkup, "runs no scripts for us"), Some(Severity::Danger));
    assert!(!format!("{checkup:?}").contains("s3cret"));
}
