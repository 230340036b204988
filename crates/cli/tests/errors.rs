//! Every error is one or two lines with something to try, and nothing tells a secret.

mod house;

use house::House;

/// What must never be seen.
const SECRET: &str = "hunter2";

fn told(house: &House, arguments: &[&str]) -> String {
    let output = house.output(arguments);
    assert_ne!(output.status.code(), Some(0), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[track_caller]
fn is_good(told: &str) {
    let lines: Vec<&str> = told.lines().collect();
    assert!((1..=2).contains(&lines.len()), "{told}");
    assert!(lines[0].starts_with("lockhouse: "), "{told}");
    assert!(lines.len() == 1 || lines[1].starts_with("  try: "), "{told}");
    for dump in ["Some(", "Err(", "None", "panicked", "Error {", "RUST_BACKTRACE", SECRET] {
        assert!(!told.contains(dump), "{dump} in {told}");
    }
}

#[test]
fn errors_are_one_or_two_lines() {
    let house = House::new();
    std::fs::write(house.path("foreign.db"), "not ours").unwrap();
    std::fs::write(house.path("bad.toml"), "[engines]\na = 'redis://:hunter2@host'").unwrap();
    let long = "x".repeat(300);
    let mistakes: &[&[&str]] = &[
        &[],
        &["rnu"],
        &["run"],
        &["run", "x"],
        &["run", "--bogus", "x", "--", "true"],
        &["run", "x", "--ttl", "soon", "--", "true"],
        &["run", "x", "--ttl", "1ms", "--", "true"],
        &["run", "x", "--on-lost", "cry", "--", "true"],
        &["run", "x", "--busy-code", "300", "--", "true"],
        &["run", "x", "--permits", "3", "--", "true"],
        &["run", "a\nb", "--", "true"],
        &["run", &long, "--", "true"],
        &["run", "x", "--", "no-such-command"],
        &["run", "x", "--", "/"],
        &["run", "x", "--at-most", "3s", "-c", "while :; do sleep 0.1; done"],
        &["--engine", "sqlite:foreign.db", "ls"],
        &["--engine", "sqlite:", "ls"],
        &["--engine", "sqlite:x?colour=red", "ls"],
        &["--engine", "redis://:hunter2@host", "ls"],
        &["--engine", "redis://host?password=hunter2", "ls"],
        &["doctor", "redis://u:hunter2@host"],
        &["--config", "bad.toml", "ls"],
        &["--config", "missing.toml", "ls"],
        &["show", ""],
        &["evict", "x"],
        &["evict", "x", "zzz"],
        &["cell", "set", "c", "v", "--if-version", "9"],
        &["cell"],
        &["completions", "tcsh"],
        &["man", "rnu"],
    ];
    for arguments in mistakes {
        let told = told(&house, arguments);
        is_good(&told);
        assert!(told.contains("\n  try: "), "{arguments:?} has nothing to try: {told}");
    }
}

#[test]
fn errors_are_objects_when_asked() {
    let house = House::new();
    for arguments in [&["--json", "run", "x", "--bogus"][..], &["--json", "run", "x", "--", "no-such-command"]] {
        let error: serde_json::Value = serde_json::from_str(&told(&house, arguments)).unwrap();
        assert!(error["error"].is_string() && error["try"].is_string() && error["exit"].is_u64(), "{error}");
    }
}

#[test]
fn a_password_is_not_shown_whoever_asks() {
    let house = House::new();
    for url in ["redis://alice:hunter2@host/0", "sqlite:/proc/x/y.db?password=hunter2", "hunter2://x:hunter2@h"] {
        for arguments in [&["ls"][..], &["doctor"], &["run", "x", "-v", "--", "true"], &["--help"], &["run", "--help"]]
        {
            let output = house.lockhouse(arguments).env("LOCKHOUSE_ENGINE", url).output().unwrap();
            let all = [output.stdout, output.stderr].concat();
            let all = String::from_utf8_lossy(&all).replace("\"hunter2\"", "the scheme, which is no secret");
            assert!(!all.contains(SECRET), "{all}");
        }
    }
}

#[test]
fn a_password_from_the_config_file_is_not_in_the_commands_environment() {
    let house = House::new();
    let text =
        format!("engine = 'mine'\n[engines.mine]\nurl = 'sqlite:{}/a:{SECRET}@b.db'\n", house.path("").display());
    std::fs::write(house.path("config.toml"), text).unwrap();
    let mut command = house.lockhouse(&["--config", "config.toml", "run", "x", "-c", "env; ps -o args= -p $PPID"]);
    let output = command.env_remove("LOCKHOUSE_ENGINE").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(seen.contains("LOCKHOUSE_ENGINE=mine") && !seen.contains(SECRET), "{seen}");
}

#[test]
fn waiting_is_told_in_plain_lines_and_quiet_says_nothing() {
    let house = House::new();
    let mut holder = house.hold("x");
    let told = told(&house, &["run", "x", "--wait", "1s", "--", "true"]);
    assert!(told.starts_with("lockhouse: waiting for x for "), "{told}");
    assert!(told.contains("1 ahead, held by tester@") && !told.contains('\r'), "{told}");
    let quiet = house.output(&["run", "x", "--wait", "1s", "--quiet", "--", "true"]);
    is_good(&String::from_utf8_lossy(&quiet.stderr));
    let json = house.output(&["run", "x", "--wait", "1s", "--json", "--", "true"]);
    let first: serde_json::Value =
        serde_json::Deserializer::from_slice(&json.stderr).into_iter().next().unwrap().unwrap();
    assert_eq!((&first["event"], &first["ahead"]), (&"waiting".into(), &1.into()));
    house.touch("go");
    assert_eq!(holder.code(), 0);
}
