//! Every exit code, by the real binary.

mod house;

use std::os::unix::fs::PermissionsExt;

use house::House;

#[test]
fn the_commands_own_code_is_ours() {
    let house = House::new();
    for code in [0, 3, 255] {
        assert_eq!(house.code(&["run", "x", "-c", &format!("exit {code}")]), code);
    }
    assert_eq!(house.code(&["run", "x", "--", "sh", "-c", "exit 4"]), 4);
}

#[test]
fn a_signal_that_ended_the_command_is_128_and_its_number() {
    let house = House::new();
    for (signal, code) in [("SEGV", 139), ("KILL", 137), ("TERM", 143)] {
        assert_eq!(house.code(&["run", "x", "-c", &format!("kill -{signal} $$")]), code);
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_run_is_126() {
    let house = House::new();
    assert_eq!(house.code(&["run", "x", "--", "no-such-command-anywhere"]), 127);
    assert_eq!(house.code(&["run", "x", "--", "/no/such/file"]), 127);
    house.touch("script");
    std::fs::set_permissions(house.path("script"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(house.code(&["run", "x", "--", "./script"]), 126);
    // And the lock is free again at once.
    assert_eq!(house.code(&["run", "x", "--no-wait", "--", "true"]), 0);
}

#[test]
fn busy_is_75_or_what_busy_code_says() {
    let house = House::new();
    let mut holder = house.hold("x");
    assert_eq!(house.code(&["run", "x", "--no-wait", "--", "true"]), 75);
    assert_eq!(house.code(&["run", "x", "--wait", "0", "--", "true"]), 75);
    assert_eq!(house.code(&["run", "x", "--wait", "1s", "--", "true"]), 75);
    assert_eq!(house.code(&["run", "x", "--no-wait", "--busy-code", "9", "--", "true"]), 9);
    assert_eq!(house.code(&["run", "x", "--wait", "1s", "--busy-code", "0", "--", "true"]), 0);
    // What users of flock write.
    assert_eq!(house.code(&["run", "x", "--nonblock", "--conflict-exit-code", "9", "--", "true"]), 9);
    assert_eq!(house.code(&["run", "x", "--timeout", "1s", "--", "true"]), 75);
    assert_eq!(house.count("x", "waits"), 0);
    house.touch("go");
    assert_eq!(holder.code(), 0);
}

#[test]
fn an_engine_that_cannot_be_used_is_69() {
    let house = House::new();
    std::fs::write(house.path("foreign.db"), "this is not a lock file of ours, nor of anybody we know").unwrap();
    for url in ["sqlite:foreign.db", "sqlite:/proc/nowhere/locks.db"] {
        assert_eq!(house.code(&["--engine", url, "run", "x", "--", "true"]), 69, "{url}");
        assert_eq!(house.code(&["--engine", url, "doctor"]), 69, "{url}");
    }
}

#[test]
fn a_command_line_that_makes_no_sense_is_64() {
    let house = House::new();
    let mistakes: &[&[&str]] = &[
        &[],
        &["rnu"],
        &["run", "--bogus", "x", "--", "true"],
        &["run", "x"],
        &["run", "--", "true"],
        &["run", "x", "--ttl", "5", "--", "true"],
        &["run", "x", "--ttl", "1ms", "--", "true"],
        &["run", "x", "--permits", "4/3", "--", "true"],
        &["run", "x", "--shared", "--exclusive", "--", "true"],
        &["run", "x", "--grace", "20s", "--", "true"],
        &["run", "x", "-c", "true", "--", "true"],
        &["run", "", "--", "true"],
        &["--engine", "gopher://host", "ls"],
        &["--engine", "nobody", "ls"],
        &["evict", "x"],
        &["evict", "x", "not-a-claim"],
        &["man", "rnu"],
    ];
    for arguments in mistakes {
        assert_eq!(house.code(arguments), 64, "{arguments:?}");
    }
    for arguments in [["--help"], ["--version"]] {
        assert_eq!(house.code(&arguments), 0);
    }
}

#[test]
fn a_configuration_that_is_wrong_is_78() {
    let house = House::new();
    for (at, text) in
        ["colour = 'red'", "[run]\nttl = 5", "engine = ", "[engines.a]\nurl = 'memory:'\nport = 1"].iter().enumerate()
    {
        let file = format!("bad-{at}.toml");
        std::fs::write(house.path(&file), text).unwrap();
        assert_eq!(house.code(&["--config", &file, "run", "x", "--", "true"]), 78, "{text}");
    }
    assert_eq!(house.code(&["--config", "missing.toml", "ls"]), 78);
    let engine = |value: &str| house.lockhouse(&["ls"]).env("LOCKHOUSE_ENGINE", value).status().unwrap().code();
    assert_eq!(engine("nobody"), Some(78));
    assert_eq!(engine("gopher://host"), Some(78));
}

#[test]
fn all_codes_are_in_the_help_and_in_the_manual() {
    let house = House::new();
    for arguments in [&["--help"][..], &["run", "--help"], &["man"], &["man", "run"]] {
        let text = String::from_utf8(house.output(arguments).stdout).unwrap();
        for code in ["64", "69", "74", "75", "78", "126", "127", "128+n"] {
            assert!(text.contains(code), "{code} in {arguments:?}");
        }
    }
}
