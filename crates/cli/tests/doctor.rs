//! What `lockhouse doctor` says of a database.

mod house;

use house::{House, wait_for};
use lockhouse_testkit::{MariaDb, Postgres, ServerClock};
use serde_json::Value;

fn told(house: &House, arguments: &[&str]) -> String {
    let output = house.output(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn data(house: &House, url: &str) -> Value {
    serde_json::from_str(&told(house, &["doctor", url, "--json"])).unwrap()
}

/// The server's clock is a minute and a half ahead, and that is what is shown.
fn shows_the_clocks_difference(url: &str) {
    let house = House::new();
    let micros = data(&house, url)["clock_difference_us"].as_i64().unwrap();
    // Less what a busy machine takes to ask.
    assert!((80_000_000..100_000_000).contains(&micros), "{micros}");
    let text = told(&house, &["doctor", url]);
    let line = text.lines().find(|line| line.contains("clock difference")).unwrap();
    assert!(line.contains("the server is ") && line.contains(" ahead; no lock depends on it"), "{line}");
}

#[test]
fn the_difference_of_postgresqls_clock_is_shown() {
    let clock = ServerClock::new();
    clock.set(90);
    let server = Postgres::start_in(&[], &clock.variables());
    shows_the_clocks_difference(&format!("postgres:{}", server.address()));
}

#[test]
fn the_difference_of_mariadbs_clock_is_shown() {
    let clock = ServerClock::new();
    clock.set(90);
    let server = MariaDb::start_in(&[], &clock.variables());
    shows_the_clocks_difference(&format!("mysql:{}", server.address()));
}

#[test]
fn postgresqls_settings_rights_and_replication_are_shown() {
    let server = Postgres::start(&["default_transaction_isolation=serializable", "statement_timeout=7s"]);
    let (house, url) = (House::new(), format!("postgres:{}", server.address()));
    let facts = &data(&house, &url)["facts"];
    assert_eq!(facts["isolation"], "read committed here; serializable by default");
    let times = facts["time-outs"].as_str().unwrap();
    assert!(times.starts_with("of our own here; by default ") && times.contains("statement_timeout 7000ms"), "{times}");
    assert!(times.contains("lock_timeout none"), "{times}");
    assert_eq!(facts["replicas"], "0, and the primary waits for none");
    assert_eq!(facts["commits"], "synchronous_commit is on by default");
    assert_eq!(facts["pooler"], "none that lends connections for single transactions");
    assert_eq!(facts["rights"], "all that locks need; may create tables in the schema");
    let _replica = server.start_replica();
    wait_for("the replica follows", || data(&house, &url)["facts"]["replicas"] == "1, and the primary waits for none");
    let findings = data(&house, &url)["findings"].to_string();
    assert!(findings.contains("a fail-over can lose the newest grants"), "{findings}");
}
