//! The Consul engine as a part of what Consul itself can do, measured in turns: an uncontended lock beside a key that
//! is acquired and released, and a lock that many want beside Consul's own recipe for waiting. Give it the address of
//! an agent: `cargo run --release -p lockhouse-bench --example consul -- HOST:PORT`.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use lockhouse_bench::RawConsul;

const ROUNDS: usize = 21;
const PAIRS_PER_ROUND: usize = 128;
const MANY: usize = 32;
const CONTENDERS: usize = 8;
const TURNS: usize = 16;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Failure> = std::result::Result<T, E>;

/// The middle one of what was measured in each round.
fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn each(time: Duration, number: usize) -> f64 {
    time.as_secs_f64() / number as f64
}

async fn pairs(host: &str, locks: &lockhouse::Locks, at_once: usize) -> Result<()> {
    let mut raws = try_join_all((0..at_once).map(|_| RawConsul::connect(host))).await?;
    let (mut of_raw, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        try_join_all(raws.iter_mut().enumerate().map(async |(task, raw)| {
            for _ in 0..PAIRS_PER_ROUND / at_once {
                raw.pair(task).await?;
            }
            Ok::<_, Failure>(())
        }))
        .await?;
        let raw = each(begin.elapsed(), PAIRS_PER_ROUND);
        let begin = Instant::now();
        try_join_all((0..at_once).map(async |task| {
            let mutex = locks.mutex(format!("orders/{task}"));
            for _ in 0..PAIRS_PER_ROUND / at_once {
                mutex.lock().await?.release().await?;
            }
            Ok::<_, Failure>(())
        }))
        .await?;
        ratios.push(raw / each(begin.elapsed(), PAIRS_PER_ROUND));
        of_raw.push(1.0 / raw);
    }
    let (raw, ratio) = (median(of_raw), median(ratios));
    println!("{at_once} at once: raw Consul {raw:.0} pairs/s, the engine {ratio:.2} of that");
    Ok(())
}

async fn hand_over(host: &str) -> Result<()> {
    let mut raws = try_join_all((0..CONTENDERS).map(|_| RawConsul::connect(host))).await?;
    let url = format!("consul://{host}");
    let clients = try_join_all((0..CONTENDERS).map(|_| lockhouse::connect(&url))).await?;
    let (mut of_raw, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS / 3 {
        let begin = Instant::now();
        try_join_all(raws.iter_mut().map(async |raw| {
            for _ in 0..TURNS {
                raw.lock("raw/contended/.lock").await?;
                raw.release("raw/contended/.lock").await?;
            }
            Ok::<_, Failure>(())
        }))
        .await?;
        of_raw.push(each(begin.elapsed(), CONTENDERS * TURNS));
        let begin = Instant::now();
        try_join_all(clients.iter().map(async |locks| {
            let mutex = locks.mutex("contended");
            for _ in 0..TURNS {
                mutex.lock().await?.release().await?;
            }
            Ok::<_, Failure>(())
        }))
        .await?;
        of_ours.push(each(begin.elapsed(), CONTENDERS * TURNS));
    }
    let (raw, ours) = (median(of_raw) * 1e3, median(of_ours) * 1e3);
    println!("{CONTENDERS} want one lock: {raw:.2} ms a turn with Consul's own recipe, {ours:.2} ms with the engine");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let host = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8500".to_owned());
    let locks = lockhouse::connect(&format!("consul://{host}")).await?;
    for at_once in [1, MANY] {
        pairs(&host, &locks, at_once).await?;
    }
    hand_over(&host).await
}
