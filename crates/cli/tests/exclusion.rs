//! Who is in together with whom, checked through files that the commands themselves write.

mod house;

use house::{House, wait_for};

#[test]
fn runs_of_one_name_never_overlap() {
    let house = House::new();
    // A folder is made by one process alone: it is the witness.
    let line = "mkdir inside || echo overlap >> overlaps; echo . >> runs; rmdir inside";
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(house.code(&["run", "x", "--quiet", "-c", line]), 0);
                }
            });
        }
    });
    assert_eq!(house.read("overlaps"), "");
    assert_eq!(house.read("runs").lines().count(), 500);
}

#[test]
fn shared_runs_are_in_together_and_an_exclusive_one_is_alone() {
    let house = House::new();
    // None of the three ends before all are in.
    let line = "touch in.$$; until [ $(ls in.* | wc -l) = 3 ]; do sleep 0.02; done; touch all; \
                until [ -e go ]; do sleep 0.02; done";
    let mut readers: Vec<_> = (0..3).map(|_| house.start(&["run", "x", "--shared", "-c", line])).collect();
    house.wait_for_file("all");
    assert_eq!(house.code(&["run", "x", "--exclusive", "--no-wait", "--", "true"]), 75);
    let mut writer = house.start(&["run", "x", "--exclusive", "-c", "touch written"]);
    house.wait_for_waiters("x", 1);
    // A waiting writer is not starved by new readers.
    assert_eq!(house.code(&["run", "x", "--shared", "--no-wait", "--", "true"]), 75);
    assert!(!house.path("written").exists());
    house.touch("go");
    readers.iter_mut().for_each(|reader| assert_eq!(reader.code(), 0));
    assert_eq!(writer.code(), 0);
    house.wait_for_file("written");
}

#[test]
fn one_of_three_permits_lets_three_in_and_never_four() {
    let house = House::new();
    let wait = "touch first.$$; until [ -e go ]; do sleep 0.02; done";
    let mut three: Vec<_> = (0..3).map(|_| house.start(&["run", "x", "--permits", "1/3", "-c", wait])).collect();
    wait_for("three", || house.count("x", "holds") == 3);
    assert_eq!(house.code(&["run", "x", "--permits", "1/3", "--no-wait", "--", "true"]), 75);
    let count = "touch in.$$; ls in.* | wc -l >> counts; sleep 0.1; rm in.$$";
    let mut more: Vec<_> = (0..9).map(|_| house.start(&["run", "x", "--permits", "1/3", "-c", count])).collect();
    house.wait_for_waiters("x", 9);
    house.touch("go");
    three.iter_mut().chain(&mut more).for_each(|one| assert_eq!(one.code(), 0));
    let counts: Vec<u32> = house.read("counts").lines().map(|count| count.trim().parse().unwrap()).collect();
    assert_eq!(counts.len(), 9);
    assert!(counts.iter().all(|count| (1..=3).contains(count)), "{counts:?}");
}

#[test]
fn waiters_get_in_in_the_order_they_came_and_a_priority_goes_ahead() {
    let house = House::new();
    let mut holder = house.hold("x");
    let mut waiters = Vec::new();
    for at in 1..=5 {
        waiters.push(house.start(&["run", "x", "-c", &format!("echo {at} >> order")]));
        house.wait_for_waiters("x", at);
    }
    waiters.push(house.start(&["run", "x", "--priority", "1", "-c", "echo first >> order"]));
    house.wait_for_waiters("x", 6);
    house.touch("go");
    assert_eq!(holder.code(), 0);
    waiters.iter_mut().for_each(|waiter| assert_eq!(waiter.code(), 0));
    assert_eq!(house.read("order"), "first\n1\n2\n3\n4\n5\n");
}

#[test]
fn several_names_are_taken_together_all_or_none() {
    let house = House::new();
    let mut holder = house.hold("b");
    assert_eq!(house.code(&["run", "c", "b", "a", "--wait", "1s", "--", "true"]), 75);
    for name in ["a", "c"] {
        assert_eq!(house.line(name)["kind"], "free");
    }
    house.touch("go");
    assert_eq!(holder.code(), 0);
    let output = house.output(&["run", "c", "b", "a", "-c", "echo \"$LOCKHOUSE_NAME\"; $LH show b | head -1"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a\nb\nc\nb: mutex, 0 waiting\n");
}

#[test]
fn at_least_keeps_a_name_taken_after_a_short_job() {
    let house = House::new();
    assert_eq!(house.code(&["run", "x", "--at-least", "1h", "--", "true"]), 0);
    assert_eq!(house.code(&["run", "x", "--no-wait", "--", "true"]), 75);
}

#[test]
fn another_kind_of_lock_on_a_name_in_use_is_told_what_to_do() {
    let house = House::new();
    let mut holder = house.start(&["run", "x", "--shared", "-c", "touch held; until [ -e go ]; do sleep 0.02; done"]);
    house.wait_for_file("held");
    let output = house.output(&["run", "x", "--", "true"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--exclusive"));
    house.touch("go");
    assert_eq!(holder.code(), 0);
}
