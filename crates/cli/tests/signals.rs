//! Signals to `lockhouse`, while it waits and while its command runs, and the one that cannot be caught.

mod house;

use house::{FAMILY, House, lives, state, wait_for};
use rustix::process::{Pid, Signal};

const ENDING: [(Signal, i32, &str); 3] =
    [(Signal::TERM, 143, "TERM"), (Signal::INT, 130, "INT"), (Signal::HUP, 129, "HUP")];

#[test]
fn while_waiting_it_leaves_the_line_at_once() {
    let house = House::new();
    let mut holder = house.hold("x");
    for (signal, code, _) in ENDING {
        let mut waiter = house.start(&["run", "x", "--", "true"]);
        house.wait_for_waiters("x", 1);
        waiter.signal(signal);
        assert_eq!(waiter.code(), code);
        assert_eq!(house.count("x", "waits"), 0);
    }
    house.touch("go");
    assert_eq!(holder.code(), 0);
}

#[test]
fn while_running_it_is_the_commands_to_decide() {
    for (signal, code, name) in ENDING {
        let house = House::new();
        let line = format!("trap 'exit 7' {name}; touch started; while :; do sleep 0.02; done");
        let mut run = house.start(&["run", "x", "-c", &line]);
        house.wait_for_file("started");
        run.signal(signal);
        assert_eq!(run.code(), 7, "{name}");

        let mut run = house.start(&["run", "y", "-c", "touch again; while :; do sleep 0.02; done"]);
        house.wait_for_file("again");
        run.signal(signal);
        assert_eq!(run.code(), code, "{name}");
        // It was given back.
        assert_eq!(house.line("y")["kind"], "free");
    }
}

#[test]
fn the_users_signals_reach_the_command_alone() {
    let house = House::new();
    // The grandchild does not expect them, and would be ended.
    let line = "trap 'echo one >> got' USR1; trap 'echo two >> got' USR2; sleep 300 & echo $! > grandchild; \
                touch started; while :; do sleep 0.02; done";
    let mut run = house.start(&["run", "x", "-c", line]);
    house.wait_for_file("started");
    for (signal, count) in [(Signal::USR1, 1), (Signal::USR2, 2)] {
        run.signal(signal);
        wait_for("the signal", || house.read("got").lines().count() == count);
    }
    assert_eq!(house.read("got"), "one\ntwo\n");
    assert!(lives(house.pid("grandchild")));
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 143);
    wait_for("the group has had it", || !lives(house.pid("grandchild")));
}

#[test]
fn the_command_can_be_stopped_and_continued_while_the_lock_is_renewed() {
    let house = House::new();
    // No shell that starts others: while it does so by vfork and the other is stopped, it cannot be stopped itself.
    let mut run = house.start(&["run", "x", "--ttl", "3s", "-c", "echo $$ > child; exec sleep 300"]);
    let child = house.pid("child");
    run.signal(Signal::TSTP);
    wait_for("stopped", || state(child) == Some('T'));
    // Longer than the lease: whoever was told to pass it on goes on renewing.
    std::thread::sleep(std::time::Duration::from_millis(4500));
    assert_eq!(house.count("x", "holds"), 1);
    assert_eq!(state(child), Some('T'));
    run.signal(Signal::CONT);
    wait_for("continued", || state(child) != Some('T'));
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 143);
}

#[test]
fn what_is_ignored_stays_ignored() {
    let house = House::new();
    let mut nohup = std::process::Command::new("nohup");
    nohup.args([house::LOCKHOUSE, "run", "x", "-c", "echo $$ > child; until [ -e go ]; do sleep 0.02; done"]);
    house.settle(&mut nohup);
    let mut run =
        house::Started(nohup.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap());
    let child = house.pid("child");
    run.signal(Signal::HUP);
    rustix::process::kill_process(Pid::from_raw(child).unwrap(), Signal::HUP).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    house.touch("go");
    assert_eq!(run.code(), 0);
}

#[test]
fn killed_itself_it_leaves_nothing_running_and_the_next_gets_in() {
    let house = House::new();
    let mut holder = house.start(&["run", "x", "-c", FAMILY]);
    let family = [house.pid("child"), house.pid("grandchild")];
    let mut next = house.start(&["run", "x", "-c", "touch next"]);
    house.wait_for_waiters("x", 1);
    holder.signal(Signal::KILL);
    holder.status();
    wait_for("child and grandchild are gone", || family.map(lives) == [false, false]);
    assert_eq!(next.code(), 0);
    assert!(house.path("next").exists());
}

#[test]
fn killed_with_its_whole_group_it_leaves_nothing_running() {
    use std::os::unix::process::CommandExt;
    let house = House::new();
    let mut command = house.lockhouse(&["run", "x", "-c", FAMILY]);
    let mut holder = house::Started(command.process_group(0).spawn().unwrap());
    let family = [house.pid("child"), house.pid("grandchild")];
    rustix::process::kill_process_group(holder.pid(), Signal::KILL).unwrap();
    holder.status();
    wait_for("child and grandchild are gone", || family.map(lives) == [false, false]);
}

#[test]
fn a_warden_that_is_killed_takes_the_command_with_it() {
    let house = House::new();
    let mut run = house.start(&["run", "x", "-c", &format!("echo $PPID > warden; {FAMILY}")]);
    let family = [house.pid("child"), house.pid("grandchild")];
    rustix::process::kill_process(Pid::from_raw(house.pid("warden")).unwrap(), Signal::KILL).unwrap();
    assert_eq!(run.code(), 137);
    assert_eq!(family.map(lives), [false, false]);
    assert_eq!(house.line("x")["kind"], "free");
}

#[test]
fn the_command_is_as_nice_as_lockhouse_was_however_much_its_warden_hurries() {
    let house = House::new();
    let output = |command: &[&str]| {
        let mut nice = std::process::Command::new("nice");
        nice.args(["-n", "7"]).args(command);
        house.settle(&mut nice);
        String::from_utf8(nice.output().unwrap().stdout).unwrap()
    };
    let under = output(&[house::LOCKHOUSE, "run", "x", "-c", "sleep 0.1; nice"]);
    assert_eq!(under, output(&["nice"]));
}

#[test]
fn standard_input_and_the_environment_reach_the_command_and_nothing_else_does() {
    use std::io::Write;
    let house = House::new();
    let line = "cat; echo $LOCKHOUSE_NAME $LOCKHOUSE_TOKEN $LOCKHOUSE_ENGINE; ls -l /proc/$$/fd";
    let mut command = house.lockhouse(&["run", "x", "-c", line]);
    let piped = std::process::Stdio::piped;
    let mut child = command.stdin(piped()).stdout(piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let mut lines = output.lines();
    assert_eq!(lines.next(), Some("through"));
    assert_eq!(lines.next().map(str::to_owned), Some(format!("x 1 {}", house.url())));
    // Neither the lock file, nor its companions, nor a socket.
    assert!(!output.contains("locks.db-") && !output.contains("socket:"), "{output}");
    assert!(lines.all(|line| !line.contains("-> ") || !line.contains("locks.db")), "{output}");
}
