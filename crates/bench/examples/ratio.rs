//! An uncontended lock on the embedded engine as a part of what SQLite itself can do, measured in turns.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::time::{Duration, Instant};

use lockhouse_bench::{RawSqlite, pair, sqlite};

const ROUNDS: usize = 41;
const PAIRS_PER_ROUND: u32 = 1_000;

fn rate(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    f64::from(PAIRS_PER_ROUND) / rounds[ROUNDS / 2].as_secs_f64()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let raw = RawSqlite::create(&folder.path().join("raw.db"))?;
    let locks = sqlite(folder.path()).await?;
    let (mut of_raw, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        (0..PAIRS_PER_ROUND).try_for_each(|_| raw.pair())?;
        of_raw.push(begin.elapsed());
        let begin = Instant::now();
        for _ in 0..PAIRS_PER_ROUND {
            pair(&locks).await?;
        }
        of_ours.push(begin.elapsed());
    }
    let (raw, ours) = (rate(of_raw), rate(of_ours));
    println!("raw SQLite {raw:.0} pairs/s, sqlite engine {ours:.0} pairs/s: {:.2} of raw", ours / raw);
    Ok(())
}
