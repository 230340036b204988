//! A `lockhouse` inside the command of another one.

mod house;

use house::{FAMILY, House, LOOK, lives};
use rustix::process::Signal;

#[test]
fn a_nested_run_of_the_same_name_goes_ahead_as_the_same_owner() {
    let house = House::new();
    let inner = "echo $LOCKHOUSE_TOKEN $LOCKHOUSE_NAME";
    let output = house.output(&[
        "run",
        "x",
        "-c",
        &format!("{inner}; $LH run x --no-wait -c '{inner}; $LH run x -n -c \"exit 6\"'"),
    ]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 x\n1 x\n");
    assert_eq!(house.line("x")["kind"], "free");
}

#[test]
fn a_nested_run_takes_what_is_not_held_yet() {
    let house = House::new();
    let inner = "$LH run x y -n -c '$LH show x | head -1; $LH show y | head -1'";
    let output = house.output(&["run", "x", "-c", inner]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "x: mutex, 0 waiting\ny: mutex, 0 waiting\n");
}

#[test]
fn a_nested_run_that_wants_more_is_refused_instead_of_waiting_for_itself() {
    let house = House::new();
    assert_eq!(house.code(&["run", "x", "--shared", "-c", "$LH run x --exclusive -- true"]), 64);
    assert_eq!(house.code(&["run", "x", "--permits", "1/3", "-c", "$LH run x --permits 2/3 -- true"]), 64);
    assert_eq!(house.code(&["run", "x", "--permits", "2/3", "-c", "$LH run x --permits 1/3 -- true"]), 0);
}

#[test]
fn a_variable_alone_is_not_believed() {
    let house = House::new();
    let mut holder = house.hold("x");
    let mut liar = house.lockhouse(&["run", "x", "--no-wait", "--", "true"]);
    assert_eq!(liar.env("LOCKHOUSE_HELD", "lockhouse-0123456789abcdef x").status().unwrap().code(), Some(75));
    house.touch("go");
    assert_eq!(holder.code(), 0);
}

#[test]
fn the_same_name_on_another_engine_is_another_lock() {
    let house = House::new();
    let other = format!("sqlite:{}", house.path("other.db").display());
    // The other file has given a token away before, so that the two can be told apart.
    assert_eq!(house.code(&["--engine", &other, "run", "x", "--", "true"]), 0);
    let inner = format!("$LH --engine {other} run x -n -c 'echo $LOCKHOUSE_TOKEN'");
    let output = house.output(&["run", "x", "-c", &inner]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_nested_run_between_two_hands_on_what_is_held_above_it() {
    let house = House::new();
    let inner = "$LH run y -n -c '$LH run x y -n -c \"echo \\$LOCKHOUSE_TOKEN\"'";
    let output = house.output(&["run", "x", "-c", inner]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 2\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_nested_run_outside_the_group_ends_in_time_when_the_holder_is_stopped() {
    let house = House::new();
    std::fs::write(house.path("family.sh"), FAMILY).unwrap();
    let line = "setsid $LH run x -q -- sh family.sh & wait";
    // The holder's warden does not find it: it is in another session.
    let mut holder = house.start(&["run", "x", "--ttl", "12s", "--grace", "300ms", "-c", line]);
    let family = [house.pid("child"), house.pid("grandchild")];
    let mut next = house.start(&["run", "x", "-c", LOOK]);
    house.wait_for_waiters("x", 1);
    holder.signal(Signal::STOP);
    assert_eq!(next.code(), 0);
    assert_eq!(house.read("overlap"), "");
    assert_eq!(family.map(lives), [false, false]);
    holder.signal(Signal::CONT);
    assert_eq!(holder.code(), 74);
}

#[test]
fn a_nested_run_that_outlives_the_lock_loses_it() {
    let house = House::new();
    let line = "($LH run x --quiet -c 'touch inside; while :; do sleep 0.05; done'; echo $? > code) & \
                until [ -e inside ]; do sleep 0.02; done";
    assert_eq!(house.code(&["run", "x", "-c", line]), 0);
    house::wait_for("the code", || house.read("code").ends_with('\n'));
    assert_eq!(house.read("code"), "74\n");
}

#[test]
fn a_holder_that_does_not_answer_is_not_taken_for_one_that_does() {
    let house = House::new();
    let line = "touch held; until [ -e go ]; do sleep 0.02; done; $LH run x -- touch inside 2> told; echo $? > code";
    let mut holder = house.start(&["run", "x", "-c", line]);
    house.wait_for_file("held");
    holder.signal(Signal::STOP);
    house.touch("go");
    house::wait_for("the code", || house.read("code").ends_with('\n'));
    assert_eq!(house.read("code"), "69\n");
    let told = house.read("told");
    assert!(told.contains("further up that holds \"x\" does not answer") && told.lines().count() == 2, "{told}");
    assert!(!house.path("inside").exists());
    holder.signal(Signal::CONT);
    assert_eq!(holder.code(), 0);
}

#[test]
fn the_engine_is_handed_on_from_a_relative_path_and_from_the_config_file() {
    let house = House::new();
    std::fs::create_dir(house.path("elsewhere")).unwrap();
    let inner = "cd elsewhere; $LH run x --no-wait -- true";
    let run = |arguments: &[&str]| house.lockhouse(arguments).env_remove("LOCKHOUSE_ENGINE").status().unwrap().code();
    assert_eq!(run(&["--engine", "sqlite:other.db", "run", "x", "-c", inner]), Some(0));
    let text = format!("[engines.here]\nurl = 'sqlite:{}'\n", house.path("third.db").display());
    std::fs::write(house.path("config.toml"), text).unwrap();
    let inner = "cd elsewhere; test \"$LOCKHOUSE_ENGINE\" = here && $LH run x --no-wait -- true";
    assert_eq!(run(&["--config", "config.toml", "--engine", "here", "run", "x", "-c", inner]), Some(0));
    assert!(house.path("other.db").exists() && house.path("third.db").exists());
}
