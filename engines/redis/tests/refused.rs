//! What a server says instead of doing what it is asked, each from a server that says it.

mod servers;

use std::slice::from_ref;
use std::time::Duration;

use lockhouse_core::{Engine, Error, Happened, Kind, Locks, Renewal, Standing};
use lockhouse_redis::Redis;
use lockhouse_testkit::{Sides, claim};
use servers::{Server, client, info, tell, until};

#[tokio::test]
async fn what_the_server_refuses_is_told_apart() {
    let server = Server::start(&["--maxmemory", "100mb"]);
    let client = client(&server.address(), "p:").await;
    let held = claim("held");
    assert!(matches!(client.front.claim(&held).await.unwrap(), Standing::Granted { .. }));
    let refused = async |kind, happened| {
        let error = client.front.claim(&claim("a")).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_happened()), (kind, happened), "{error}");
    };
    server.tell("CONFIG SET maxmemory 1");
    refused(Kind::Full, Happened::No).await;
    let renewed = client.keeper.renew(from_ref(&held)).await.unwrap();
    assert_eq!(renewed, [Renewal::Renewed], "a full server still renews");
    server.tell("CONFIG SET maxmemory 0");
    server.tell("REPLICAOF 127.0.0.1 1");
    refused(Kind::Unreachable, Happened::No).await;
    server.tell("REPLICAOF NO ONE");
    server.tell("ACL SETUSER default -zadd -set");
    let error = client.front.claim(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    server.tell("ACL SETUSER default +@all");
    server.tell("HSET p:taken x y");
    let error = client.front.claim(&claim("taken")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}

/// The first error that is not about the old connection, which may have broken with a request on its way.
async fn error_of(front: &dyn Engine) -> Error {
    loop {
        match front.claim(&claim("a")).await.expect_err("it is refused") {
            error if error.may_have_happened() == Happened::Unknown => {}
            error => return error,
        }
    }
}

/// A key takes a tenth of a second to load, and the server answers in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_its_data_is_waited_for() {
    const TTL: Duration = Duration::from_secs(3);
    let folder = tempfile::tempdir().unwrap();
    let slowly = ["--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024"];
    let kept = ["--dir", folder.path().to_str().unwrap(), "--rdbcompression", "no"];
    let server = Server::start(&[&slowly[..], &kept].concat());
    let address = server.address();
    for key in 0..20 {
        tell(&address, &format!("SET key:{key} {}", "x".repeat(4096)));
    }
    let locks = Locks::new(Redis::at(&address).unwrap()).await.unwrap();
    let held = locks.mutex("held").ttl(10 * TTL).lock().await.unwrap();
    server.tell("SAVE");
    server.kill();
    server.start_again();
    until("it loads", || info(&address, "persistence", "loading").as_deref() == Some("1"));

    let hasty = Sides::of(&Redis::at(&address).unwrap()).await;
    let error = error_of(&*hasty.front).await;
    assert_eq!((error.kind(), error.may_have_happened()), (Kind::Unreachable, Happened::No), "{error}");
    assert!(error.to_string().contains("is still loading its data"), "{error}");
    assert_eq!(info(&address, "persistence", "loading").as_deref(), Some("1"), "it was over before it was asked");
    locks.mutex("a").ttl(TTL).wait(10 * TTL).lock().await.expect("it waits").release().await.unwrap();
    held.check().unwrap();
    assert!(locks.mutex("held").ttl(TTL).try_lock().await.unwrap().is_none(), "it was loaded, too");
}

/// Sends a command as somebody.
fn tell_as(credentials: &str, port: u16, words: &[&str]) {
    let client = redis::Client::open(format!("redis://{credentials}127.0.0.1:{port}")).unwrap();
    redis::cmd(words[0]).arg(&words[1..]).exec(&mut client.get_connection().unwrap()).unwrap();
}

#[tokio::test]
async fn credentials_are_used_and_refused() {
    let server = Server::start(&[]);
    server.tell("ACL SETUSER alice on >s3cret ~* &* +@all");
    let at = |credentials: &str| Redis::at(&format!("//{credentials}127.0.0.1:{}", server.port)).unwrap();
    Locks::new(at("alice:s3cret@")).await.unwrap();
    let refused = async |credentials| {
        let error = Locks::new(at(credentials)).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_happened()), (Kind::Denied, Happened::No), "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    };
    refused("alice:wrong@").await;
    // From now on nobody is anybody without a password: the server says NOAUTH.
    tell_as("alice:s3cret@", server.port, &["ACL", "SETUSER", "default", "resetpass", ">other"]);
    refused("").await;
    Locks::new(at(":other@")).await.unwrap();
}

/// Redis asks for a password when a connection is made, not afterwards.
#[tokio::test]
async fn a_password_that_is_changed_is_noticed_by_the_next_connection() {
    let server = Server::start(&[]);
    server.tell("ACL SETUSER alice on >before ~* &* +@all");
    let redis = Redis::at(&format!("//alice:before@127.0.0.1:{}", server.port)).unwrap();
    let sides = Sides::of(&redis).await;
    let held = claim("held");
    sides.front.claim(&held).await.unwrap();
    server.tell("ACL SETUSER alice resetpass >after");
    assert_eq!(sides.keeper.renew(from_ref(&held)).await.unwrap(), [Renewal::Renewed]);

    server.tell("CLIENT KILL USER alice");
    let error = error_of(&*sides.front).await;
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(!error.to_string().contains("before"), "{error}");
    // Both are known for a while: how passwords are changed without anybody noticing.
    server.tell("ACL SETUSER alice >before");
    assert_eq!(sides.keeper.renew(from_ref(&held)).await.unwrap(), [Renewal::Renewed], "nothing was lost by it");
}
