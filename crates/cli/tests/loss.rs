//! A lock that is lost while its command runs: the command and all that it started are gone in time, and the code is
//! 74.

mod house;

use house::{FAMILY, House, LOOK, lives, wait_for};
use rustix::process::Signal;

#[test]
fn evicted_from_another_shell() {
    let house = House::new();
    let mut holder = house.start(&["run", "x", "--ttl", "3s", "--grace", "300ms", "-c", FAMILY]);
    let family = [house.pid("child"), house.pid("grandchild")];
    let mut next = house.start(&["run", "x", "-c", LOOK]);
    house.wait_for_waiters("x", 1);
    let evicted = house.output(&["evict", "x", "--reason", "the  migration\nhangs"]);
    assert!(evicted.status.success(), "{evicted:?}");
    assert_eq!(holder.code(), 74);
    assert_eq!(family.map(lives), [false, false]);
    let told = holder.stderr();
    assert!(told.contains("evicted by tester@") && told.contains("the migration hangs"), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
    assert_eq!(next.code(), 0);
    assert_eq!(house.read("overlap"), "");
}

#[test]
fn stopped_past_its_lease() {
    let house = House::new();
    // Nothing but the warden's own timer can end the command here, within a twentieth of the lease: this lease leaves
    // a machine that runs all tests at once 600 ms to wake it.
    let mut holder = house.start(&["run", "x", "--ttl", "12s", "--grace", "300ms", "-c", FAMILY]);
    let family = [house.pid("child"), house.pid("grandchild")];
    let mut next = house.start(&["run", "x", "-c", LOOK]);
    house.wait_for_waiters("x", 1);
    holder.signal(Signal::STOP);
    // The holder stands still; somebody else sees to it that its command does not outlive the lease.
    assert_eq!(next.code(), 0);
    assert_eq!(house.read("overlap"), "");
    assert_eq!(family.map(lives), [false, false]);
    holder.signal(Signal::CONT);
    assert_eq!(holder.code(), 74);
}

#[test]
fn a_command_that_obeys_sigterm_has_its_grace() {
    let house = House::new();
    let line = "trap 'sleep 0.2; touch cleaned; exit 0' TERM; touch started; while :; do sleep 0.05; done";
    let mut holder = house.start(&["run", "x", "--ttl", "6s", "--grace", "2s", "-c", line]);
    house.wait_for_file("started");
    assert_eq!(house.code(&["evict", "x", "--yes"]), 0);
    assert_eq!(holder.code(), 74);
    assert!(house.path("cleaned").exists());
}

#[test]
fn held_for_as_long_as_at_most_permits() {
    let house = House::new();
    let mut holder = house.start(&["run", "x", "--at-most", "2s", "-c", FAMILY]);
    let family = [house.pid("child"), house.pid("grandchild")];
    assert_eq!(holder.code(), 74);
    assert_eq!(family.map(lives), [false, false]);
    let told = holder.stderr();
    assert!(told.contains("as long as --at-most permits"), "{told}");
}

#[test]
fn on_lost_kill_does_not_ask() {
    let house = House::new();
    let line = "trap 'touch asked' TERM; touch started; while :; do sleep 0.05; done";
    let mut holder = house.start(&["run", "x", "--ttl", "2s", "--on-lost", "kill", "-c", line]);
    house.wait_for_file("started");
    assert_eq!(house.code(&["evict", "x", "--yes"]), 0);
    assert_eq!(holder.code(), 74);
    assert!(!house.path("asked").exists());
}

#[test]
fn on_lost_ignore_lets_it_run_and_says_so() {
    let house = House::new();
    let line = "touch started; until [ -e go ]; do sleep 0.05; done; exit 5";
    let mut holder = house.start(&["run", "x", "--ttl", "2s", "--on-lost", "ignore", "-c", line]);
    house.wait_for_file("started");
    assert_eq!(house.code(&["evict", "x", "--yes"]), 0);
    wait_for("free", || house.line("x")["kind"] == "free");
    house.touch("go");
    assert_eq!(holder.code(), 5);
    assert!(holder.stderr().contains("was lost"));
}

#[test]
fn a_waiter_that_is_evicted_is_told() {
    let house = House::new();
    let mut holder = house.hold("x");
    let mut waiter = house.start(&["run", "x", "--", "true"]);
    house.wait_for_waiters("x", 1);
    let claim = house.line("x")["places"][1]["claim"].as_str().unwrap().to_owned();
    assert_eq!(house.code(&["evict", "x", &claim]), 0);
    assert_eq!(waiter.code(), 75);
    house.touch("go");
    assert_eq!(holder.code(), 0);
}
