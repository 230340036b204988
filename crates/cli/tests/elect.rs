//! `lockhouse elect`: one leader at a time, and another campaign after a loss.

mod house;

use house::{House, wait_for};
use rustix::process::Signal;

#[test]
fn a_leader_that_ends_is_followed_by_the_next() {
    let house = House::new();
    let line = "echo one >> leaders; until [ -e go ]; do sleep 0.02; done; exit 4";
    let mut first = house.start(&["elect", "boss", "-c", line]);
    wait_for("a leader", || house.read("leaders") == "one\n");
    let mut second = house.start(&["elect", "boss", "-c", "echo two >> leaders"]);
    house.wait_for_waiters("boss", 1);
    house.touch("go");
    assert_eq!((first.code(), second.code()), (4, 0));
    assert_eq!(house.read("leaders"), "one\ntwo\n");
}

#[test]
fn a_leader_that_is_evicted_campaigns_again() {
    let house = House::new();
    let line = "echo $$ >> terms; while :; do sleep 0.02; done";
    let mut leader = house.start(&["elect", "boss", "--ttl", "1s", "-c", line]);
    let terms = || house.read("terms").lines().count();
    wait_for("the first term", || terms() == 1);
    let first: i32 = house.read("terms").trim().parse().unwrap();
    assert_eq!(house.code(&["evict", "boss", "--yes"]), 0);
    wait_for("the second term", || terms() == 2);
    assert!(!house::lives(first));
    leader.signal(Signal::TERM);
    assert_eq!(leader.code(), 143);
    assert!(leader.stderr().contains("campaigning again"));
}

#[test]
fn once_ends_with_the_first_loss() {
    let house = House::new();
    let mut leader =
        house.start(&["elect", "boss", "--once", "--ttl", "1s", "-c", "touch led; while :; do sleep 0.02; done"]);
    house.wait_for_file("led");
    assert_eq!(house.code(&["evict", "boss", "--yes"]), 0);
    assert_eq!(leader.code(), 74);
}
