//! Renewals that fail: the command is told and ended before the lock can be somebody else's, to the moment.

mod house;

use std::time::Duration;

use house::redis::Redis;
use house::{House, LOOK, lives, wait_for};
use rusqlite::Connection;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

const GRACE: Duration = Duration::from_secs(1);
/// The shell runs its trap when its `sleep` is over, and starts a program there that looks at the clock: so late it may
/// write down that it was told.
const NOTED: Duration = Duration::from_millis(300);

/// A shell line that writes down when it got SIGTERM, and stays all the same; its child does not even notice.
const STUBBORN: &str = "trap 'cut -d\" \" -f1 /proc/uptime >> term' TERM; \
                        sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 0.1; done' & \
                        echo $$ > child; while :; do sleep 0.05; done";

/// The boot clock, by which leases are kept and which `/proc/uptime` shows.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap())
}

/// When the family was seen to be gone, and when it had been told to go.
fn end_of(house: &House) -> (Duration, Duration) {
    let family = [house.pid("child"), house.pid("grandchild")];
    wait_for("the end", || family.map(lives) == [false, false]);
    let gone = now();
    let told = house.read("term");
    assert_eq!(told.lines().count(), 1, "SIGTERM comes once: {told:?}");
    (gone, Duration::from_secs_f64(told.trim().parse().unwrap()))
}

#[test]
fn an_embedded_file_that_cannot_be_written() {
    let house = House::new();
    let mut holder = house.start(&["run", "x", "--ttl", "9s", "--grace", "1s", "-c", STUBBORN]);
    house.pid("grandchild");
    // Somebody else writes and does not come to an end: no renewal can succeed.
    let blocker = Connection::open(house.path("locks.db")).unwrap();
    blocker.busy_timeout(house::LONG).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let free: i64 = blocker.query_row("SELECT lease_end FROM claims WHERE name = 'x'", [], |row| row.get(0)).unwrap();
    let free = Duration::from_nanos(free.cast_unsigned());

    let (gone, told) = end_of(&house);
    assert!(told + GRACE < free, "the grace fits: told at {told:?}, free at {free:?}");
    assert!(gone + NOTED >= told + GRACE, "it had its grace: told at {told:?}, gone at {gone:?}");
    assert!(gone < free, "nobody else could be in yet: gone at {gone:?}, free at {free:?}");
    assert_eq!(holder.code(), 74);
    blocker.execute_batch("ROLLBACK").unwrap();
    assert_eq!(house.code(&["run", "x", "-c", LOOK]), 0);
    assert_eq!(house.read("overlap"), "");
}

#[test]
fn a_server_that_stands_still() {
    let house = House::new();
    let redis = Redis::start();
    let ttl = Duration::from_secs(6);
    let lockhouse = |arguments: &[&str]| {
        let mut command = house.lockhouse(arguments);
        command.env("LOCKHOUSE_ENGINE", redis.url());
        command
    };
    let mut holder = lockhouse(&["run", "x", "--ttl", "6s", "--grace", "1s", "-c", STUBBORN]);
    let mut holder = house::Started(holder.stderr(std::process::Stdio::piped()).spawn().unwrap());
    house.pid("grandchild");
    redis.program.signal(Signal::STOP);
    // The last lease that it can have given began before this.
    let free = now() + ttl;

    let (gone, told) = end_of(&house);
    assert!(told + GRACE < free, "the grace fits: told at {told:?}, free at {free:?}");
    assert!(gone + NOTED >= told + GRACE, "it had its grace: told at {told:?}, gone at {gone:?}");
    assert!(gone < free, "nobody else could be in yet: gone at {gone:?}, free at {free:?}");
    assert_eq!(holder.code(), 74);
    redis.program.signal(Signal::CONT);
    assert_eq!(lockhouse(&["run", "x", "--ttl", "6s", "-c", LOOK]).status().unwrap().code(), Some(0));
    assert_eq!(house.read("overlap"), "");
}
