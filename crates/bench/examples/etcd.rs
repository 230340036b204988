//! An uncontended lock on etcd as a part of what etcd itself can do, measured in turns: one after the other, and with
//! many at once. Give it the address of a member: `cargo run --release -p lockhouse-bench --example etcd -- HOST:PORT`.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use lockhouse_bench::RawEtcd;

const ROUNDS: usize = 21;
const PAIRS_PER_ROUND: usize = 128;
const MANY: usize = 64;

fn rate(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    PAIRS_PER_ROUND as f64 / rounds[ROUNDS / 2].as_secs_f64()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2379".to_owned());
    let raw = RawEtcd::connect(&host).await?;
    let locks = lockhouse::connect(&format!("etcd://{host}")).await?;
    for at_once in [1, MANY] {
        let (mut of_raw, mut of_ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            let raw = &raw;
            try_join_all((0..at_once).map(async |task| {
                for _ in 0..PAIRS_PER_ROUND / at_once {
                    raw.pair(task).await?;
                }
                Ok::<_, tonic::Status>(())
            }))
            .await?;
            of_raw.push(begin.elapsed());
            let begin = Instant::now();
            let locks = &locks;
            try_join_all((0..at_once).map(async |task| {
                let mutex = locks.mutex(format!("orders/{task}"));
                for _ in 0..PAIRS_PER_ROUND / at_once {
                    mutex.lock().await?.release().await?;
                }
                Ok::<_, lockhouse::Error>(())
            }))
            .await?;
            of_ours.push(begin.elapsed());
        }
        let (raw, ours) = (rate(of_raw), rate(of_ours));
        println!(
            "{at_once} at once: raw etcd {raw:.0} pairs/s, etcd engine {ours:.0} pairs/s: {:.2} of raw",
            ours / raw
        );
    }
    Ok(())
}
