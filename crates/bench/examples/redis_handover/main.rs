//! One lock on Redis handed over among 32 waiters in 4 processes: lockhouse beside rslock, redis-py's `Lock` and node's
//! redlock, which do the same work in the same run.
//!
//! `cargo run --release -p lockhouse-bench --example redis_handover`
//!
//! A turn lasts a millisecond. A hand-over is the time from the beginning of a release to the next grant, whoever gets
//! it; a wait is that from asking to the grant. The others ask again after a pause: their default, and 5 ms.

#![expect(clippy::print_stdout, reason = "it prints its result")]

mod peers;
mod worker;

use std::error::Error;
use std::time::Duration;

use lockhouse_testkit::{Peer as Process, Program, bound, free_port};
use redis::cmd;

use crate::peers::{Peer, everybody};

const PROCESSES: usize = 4;
const TASKS: usize = 8;
const SECONDS: u64 = 5;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What became of a run, in milliseconds.
struct Figures {
    grants_a_second: f64,
    hand_overs: Vec<f64>,
    waits: Vec<f64>,
    /// Turns that began before the one before them was over.
    overlaps: usize,
}

/// Has the processes of one peer take turns.
fn run(peer: &Peer, url: &str, key: &str) -> Figures {
    let start = |_| Process::start(&mut peer.command(url, key, SECONDS));
    let mut processes: Vec<Process> = (0..PROCESSES).map(start).collect();
    for process in &mut processes {
        assert_eq!(process.answer(), "ready", "{} cannot be started", peer.name);
    }
    processes.iter_mut().for_each(|process| process.tell("go"));
    let mut turns = Vec::new();
    for process in &mut processes {
        loop {
            let line = process.answer();
            let turn: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            match turn[..] {
                [asked, granted, released] => turns.push((granted, asked, released)),
                _ => break,
            }
        }
    }
    turns.sort_unstable();
    figures(&turns)
}

/// Turns are: granted, asked, released.
fn figures(turns: &[(u64, u64, u64)]) -> Figures {
    let millis = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64() * 1e3;
    let asked_first = turns.iter().map(|(_, asked, _)| *asked).min().unwrap_or(0);
    let in_time = turns.iter().filter(|(granted, ..)| *granted < asked_first + SECONDS * 1_000_000_000).count();
    let pairs = || turns.iter().zip(&turns[1.min(turns.len())..]);
    let overlaps = pairs().filter(|((.., released), (granted, ..))| granted < released).count();
    let between = |((.., released), (granted, ..)): (&(u64, u64, u64), &(u64, u64, u64))| {
        millis(granted.saturating_sub(*released))
    };
    let (mut hand_overs, mut waits): (Vec<f64>, Vec<f64>) =
        (pairs().map(between).collect(), turns.iter().map(|(granted, asked, _)| millis(granted - asked)).collect());
    hand_overs.sort_by(f64::total_cmp);
    waits.sort_by(f64::total_cmp);
    Figures { grants_a_second: in_time as f64 / SECONDS as f64, hand_overs, waits, overlaps }
}

/// Of sorted values, the one that so many percent are below.
fn percentile(values: &[f64], percent: usize) -> f64 {
    values.get(values.len() * percent / 100).or(values.last()).copied().unwrap_or(f64::NAN)
}

fn print(peer: &Peer, figures: &Figures) {
    let pause = match (peer.name, peer.pause) {
        ("lockhouse", _) => "is told".to_owned(),
        (_, 0) => "its default".to_owned(),
        (_, pause) => format!("asks after {pause} ms"),
    };
    let at = |values: &[f64]| format!("{:9.2} {:9.2}", percentile(values, 50), percentile(values, 99));
    let (hand_overs, waits) = (at(&figures.hand_overs), at(&figures.waits));
    println!("{:16} {pause:17} {:8.0} {hand_overs} {waits}", peer.name, figures.grants_a_second);
    if figures.overlaps > 0 {
        println!("{:16} {} turns began before the one before them was over", "", figures.overlaps);
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [who, url, key, seconds, pause] = &arguments[..] {
        return worker::work(who, url, key, seconds.parse()?, pause.parse()?).await;
    }
    let port = free_port();
    let server = Program::start(move || {
        let mut command = bound("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
        command
    });
    let url = format!("redis://127.0.0.1:{port}");
    let client = redis::Client::open(url.as_str())?;
    assert!(server.answers(Duration::from_secs(10), || client.get_connection().is_ok()), "redis-server can be started");
    let mut connection = client.get_connection()?;
    let info: String = cmd("INFO").arg("server").query(&mut connection)?;
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().trim();
    // Nobody was there before: the server may give locks away at once.
    cmd("SET").arg("lockhouse:\ttokens").arg(format!("0 {run_id} 0")).exec(&mut connection)?;
    let peers = everybody()?;
    println!("{:34} {:>8} {:>19} {:>19}", "", "grants/s", "hand-over, ms", "wait, ms");
    println!("{:34} {:8} {:>9} {:>9} {:>9} {:>9}", "", "", "p50", "p99", "p50", "p99");
    for peer in &peers {
        print(peer, &run(peer, &url, &format!("handover/{}", peer.name)));
    }
    Ok(())
}
