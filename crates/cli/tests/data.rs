//! The commands that print data: as text and as JSON, with the fields that docs/cli.md names.

mod house;

use std::io::{BufRead, BufReader};

use house::House;
use serde_json::{Value, json};

fn text(house: &House, arguments: &[&str]) -> String {
    let output = house.output(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn data(house: &House, arguments: &[&str]) -> Value {
    serde_json::from_str(&text(house, arguments)).unwrap()
}

#[test]
fn ls_and_show_tell_who_holds_and_who_waits() {
    let house = House::new();
    let line = "touch held; until [ -e go ]; do sleep 0.02; done";
    let mut holder = house.start(&["run", "jobs/a", "--owner", "ci", "--note", "nightly", "-c", line]);
    house.wait_for_file("held");
    let mut waiter = house.start(&["run", "jobs/a", "--", "true"]);
    house.wait_for_waiters("jobs/a", 1);

    let table = text(&house, &["ls"]);
    let row = table.lines().nth(1).unwrap();
    assert!(row.starts_with("jobs/a  mutex") && row.contains("ci@") && row.ends_with("nightly"), "{table}");
    assert!(!table.contains('\x1b'), "no colour into a pipe");
    assert_eq!(text(&house, &["ls", "other/"]).lines().count(), 1);

    let lines = data(&house, &["ls", "jobs/", "--json"]);
    let line = data(&house, &["show", "jobs/a", "--json"]);
    for line in [&lines[0], &line] {
        assert_eq!((&line["name"], &line["kind"], &line["capacity"]), (&json!("jobs/a"), &json!("mutex"), &json!(1)));
        let [first, second] = line["places"].as_array().unwrap().as_slice() else { panic!("{line}") };
        assert_eq!((&first["state"], &first["token"], &first["note"]), (&json!("holds"), &json!(1), &json!("nightly")));
        assert_eq!(
            (&second["state"], &second["token"], &second["note"]),
            (&json!("waits"), &json!(null), &json!(null))
        );
        for place in [first, second] {
            assert_eq!(place["claim"].as_str().unwrap().len(), 12);
            assert!(place["since_ms"].is_u64() && place["lease_left_ms"].as_u64().unwrap() <= 30_000);
            assert_eq!((&place["weight"], &place["priority"]), (&json!(1), &json!(0)));
        }
    }
    house.touch("go");
    assert_eq!((holder.code(), waiter.code()), (0, 0));
    assert_eq!(text(&house, &["show", "jobs/a"]), "jobs/a is free\n");
    assert_eq!(data(&house, &["show", "jobs/a", "--json"])["kind"], "free");
}

#[test]
fn watch_tells_each_change() {
    let house = House::new();
    let mut watcher = house.start(&["watch", "--json", "--every", "20ms"]);
    let mut lines = BufReader::new(watcher.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let mut holder = house.hold("x");
    assert_eq!(next()["places"][0]["state"], "holds");
    house.touch("go");
    assert_eq!(holder.code(), 0);
    assert_eq!(next(), json!({ "name": "x", "kind": "free", "capacity": 0, "places": [] }));
}

#[test]
fn evict_tells_whom() {
    let house = House::new();
    let mut holder = house.start(&["run", "x", "--ttl", "1s", "-c", "touch held; while :; do sleep 0.02; done"]);
    house.wait_for_file("held");
    let told = data(&house, &["evict", "x", "--json"]);
    assert_eq!((&told["name"], &told["evicted"][0]["token"]), (&json!("x"), &json!(1)));
    assert_eq!(holder.code(), 74);
}

#[test]
fn cells_are_an_optimistic_lock() {
    let house = House::new();
    assert_eq!(
        data(&house, &["cell", "get", "c", "--json"]),
        json!({ "name": "c", "version": 0, "token": 0, "value": "" })
    );
    assert_eq!(house.code(&["cell", "set", "c", "one", "--if-version", "0"]), 0);
    assert_eq!(house.code(&["cell", "set", "c", "late", "--if-version", "0"]), 75);
    assert_eq!(text(&house, &["cell", "get", "c"]), "one");
    assert_eq!(
        data(&house, &["cell", "set", "c", "two", "--token", "5", "--json"]),
        json!({ "name": "c", "version": 2 })
    );
    assert_eq!(house.code(&["cell", "set", "c", "stale", "--token", "4"]), 74);
    assert_eq!(house.code(&["cell", "update", "c", "--", "sh", "-c", "tr a-z A-Z"]), 0);
    assert_eq!(text(&house, &["cell", "get", "c"]), "TWO");
    assert_eq!(house.code(&["cell", "update", "c", "--", "sh", "-c", "exit 3"]), 3);
    assert_eq!(house.code(&["cell", "update", "c", "--", "no-such-command"]), 127);
    assert_eq!(text(&house, &["cell", "get", "c"]), "TWO");
}

#[test]
fn many_updates_at_once_lose_nothing() {
    let house = House::new();
    assert_eq!(house.code(&["cell", "set", "n", "0"]), 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(house.code(&["cell", "update", "n", "--", "sh", "-c", "read n; echo $((n + 1))"]), 0);
                }
            });
        }
    });
    assert_eq!(text(&house, &["cell", "get", "n"]), "20\n");
}

#[test]
fn doctor_says_what_is_promised_and_what_to_change() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new();
    let told = text(&house, &["doctor"]);
    assert!(told.contains("is reached (sqlite") && told.contains("one machine"), "{told}");
    std::fs::set_permissions(house.path("locks.db"), std::fs::Permissions::from_mode(0o666)).unwrap();
    // What it finds is told; that it was found out is a success.
    let told = text(&house, &["doctor"]);
    assert!(told.contains("To change\n") && told.contains("try: chmod o-w"), "{told}");
    let told = data(&house, &["doctor", "--json"]);
    assert_eq!((&told["facts"]["journal mode"], &told["facts"]["clients alive"]), (&json!("wal"), &json!("1")));
    let dangers: Vec<_> =
        told["findings"].as_array().unwrap().iter().filter(|one| one["severity"] == "danger").collect();
    assert!(dangers.iter().any(|one| one["try"].as_str().unwrap().starts_with("chmod o-w ")), "{told}");
    let told = data(&house, &["doctor", "memory:", "--json"]);
    assert_eq!((&told["engine"], &told["promises"]["exclusion"]), (&json!("memory"), &json!("process")));
    assert!(told["round_trip_us"].is_u64() && told["findings"][0]["try"].is_string());
}

#[test]
fn completions_and_manual_pages_are_there() {
    let house = House::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(text(&house, &["completions", shell]).contains("at-least"), "{shell}");
    }
    for page in ["run", "elect", "ls", "show", "watch", "evict", "cell", "doctor", "completions", "man"] {
        assert!(text(&house, &["man", page]).contains(".SH \"EXIT STATUS\""), "{page}");
    }
    assert!(text(&house, &["man"]).contains("LOCKHOUSE\\_TOKEN") || text(&house, &["man"]).contains("LOCKHOUSE_TOKEN"));
}

#[test]
fn the_config_file_names_engines_and_sets_defaults() {
    let house = House::new();
    std::fs::create_dir_all(house.path(".config/lockhouse")).unwrap();
    let text = format!("engine = 'mine'\n[run]\nwait = '50ms'\n[engines.mine]\nurl = '{}'\n", house.url());
    std::fs::write(house.path(".config/lockhouse/config.toml"), text).unwrap();
    let mut holder = house.hold("x");
    let run = house.lockhouse(&["run", "x", "--", "true"]).env_remove("LOCKHOUSE_ENGINE").output().unwrap();
    assert_eq!(run.status.code(), Some(75), "{}", String::from_utf8_lossy(&run.stderr));
    house.touch("go");
    assert_eq!(holder.code(), 0);
}

#[test]
fn without_any_setting_the_file_is_in_the_state_folder() {
    let house = House::new();
    let run = house.lockhouse(&["run", "x", "--", "true"]).env_remove("LOCKHOUSE_ENGINE").status().unwrap();
    assert!(run.success() && house.path(".local/state/lockhouse/locks.db").exists());
    let nowhere = house.lockhouse(&["ls"]).env_remove("LOCKHOUSE_ENGINE").env_remove("HOME").output().unwrap();
    assert_eq!(nowhere.status.code(), Some(78));
}

#[test]
fn nothing_is_left_beside_the_lock_file() {
    let house = House::new();
    for _ in 0..10 {
        assert_eq!(house.code(&["run", "x", "--", "true"]), 0);
        assert_eq!(house.code(&["ls"]), 0);
    }
    let mut left: Vec<_> = std::fs::read_dir(house.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["locks.db", "locks.db-shm", "locks.db-wal"]);
}
