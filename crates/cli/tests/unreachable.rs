//! An engine that is not there, hangs or goes away: 69 in bounded time, and one or two lines with something to try.

mod house;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use house::redis::Redis;
use house::{FAMILY, House, lives, wait_for};
use lockhouse_testkit::free_port;

/// An engine that is not there is ridden out for five seconds; the rest is for a busy machine.
const IN_TIME: Duration = Duration::from_secs(30);

/// Runs `lockhouse` on an engine that cannot be used.
#[track_caller]
fn is_69(house: &House, url: &str, arguments: &[&str]) {
    let started = Instant::now();
    let output = house.lockhouse(arguments).env("LOCKHOUSE_ENGINE", url).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{arguments:?}: {told}");
    assert!(started.elapsed() < IN_TIME, "{arguments:?} took {:?}: {told}", started.elapsed());
    is_told(&told);
}

#[track_caller]
fn is_told(told: &str) {
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.starts_with("lockhouse: ") && told.contains("\n  try: "), "{told}");
}

#[test]
fn a_server_that_is_gone() {
    let house = House::new();
    let redis = Redis::start();
    let run = |command: &str| {
        let mut run = house.lockhouse(&["run", "x", "--ttl", "500ms", "-c", command]);
        run.env("LOCKHOUSE_ENGINE", redis.url()).status().unwrap().code()
    };
    assert_eq!(run("test $LOCKHOUSE_TOKEN -gt 0"), Some(0));
    let url = redis.url();
    redis.program.kill();
    let commands: &[&[&str]] =
        &[&["run", "x", "--", "true"], &["run", "x", "--no-wait", "--", "true"], &["ls"], &["doctor"]];
    std::thread::scope(|scope| {
        for arguments in commands {
            scope.spawn(|| is_69(&house, &url, arguments));
        }
    });
}

#[test]
fn a_port_that_nobody_listens_on() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    is_69(&House::new(), &url, &["run", "x", "--", "true"]);
}

#[test]
fn a_server_that_accepts_and_never_answers() {
    let house = House::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let commands: &[&[&str]] = &[&["run", "x", "--", "true"], &["show", "x"], &["doctor"]];
    std::thread::scope(|scope| {
        for arguments in commands {
            scope.spawn(|| is_69(&house, &url, arguments));
        }
    });
}

#[test]
fn a_server_that_goes_away_ends_waiters_with_69_and_holders_with_74() {
    let house = House::new();
    let redis = Redis::start();
    let start = |arguments: &[&str]| {
        let mut command = house.lockhouse(arguments);
        command.env("LOCKHOUSE_ENGINE", redis.url()).stderr(std::process::Stdio::piped());
        house::Started(command.spawn().unwrap())
    };
    let mut holder = start(&["run", "x", "--ttl", "4s", "--grace", "200ms", "-c", FAMILY]);
    let family = [house.pid("child"), house.pid("grandchild")];
    let mut waiter = start(&["run", "x", "--ttl", "4s", "--quiet", "--", "true"]);
    wait_for("the waiter", || {
        let line = house.lockhouse(&["show", "x", "--json"]).env("LOCKHOUSE_ENGINE", redis.url()).output().unwrap();
        String::from_utf8_lossy(&line.stdout).contains("\"waits\"")
    });
    redis.program.kill();
    assert_eq!(waiter.code(), 69);
    is_told(&waiter.stderr());
    assert_eq!(holder.code(), 74);
    assert_eq!(family.map(lives), [false, false]);
}
