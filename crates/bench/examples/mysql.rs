//! An uncontended lock on MySQL or MariaDB as a part of what the server itself can do, measured in turns.
//!
//! Raw is the least that a lock needs: a row that is inserted or taken over, and deleted, each in a statement of its own.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::time::{Duration, Instant};

use lockhouse_bench::pair;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

const ROUNDS: usize = 21;
const PAIRS_PER_ROUND: u32 = 100;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS raw_locks (name VARBINARY(255) PRIMARY KEY, owner VARBINARY(64) NOT NULL, \
                      lease_end DATETIME(6) NOT NULL) ENGINE = InnoDB";
const TAKE: &str = "INSERT INTO raw_locks VALUES ('orders/42', 'alice@web-1:4711', UTC_TIMESTAMP(6) + INTERVAL 30 SECOND) \
                    ON DUPLICATE KEY UPDATE owner = VALUES(owner), lease_end = VALUES(lease_end)";
const GIVE_BACK: &str = "DELETE FROM raw_locks WHERE name = 'orders/42' AND owner = 'alice@web-1:4711'";

fn rate(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    f64::from(PAIRS_PER_ROUND) / rounds[ROUNDS / 2].as_secs_f64()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the URL of a database, such as mysql://root@127.0.0.1:3306/test")?;
    let mut raw = Conn::from_url(&url).await?;
    raw.query_drop(CREATE).await?;
    let locks = lockhouse::connect(&url).await?;
    let (mut of_raw, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..PAIRS_PER_ROUND {
            raw.query_drop(TAKE).await?;
            raw.query_drop(GIVE_BACK).await?;
        }
        of_raw.push(begin.elapsed());
        let begin = Instant::now();
        for _ in 0..PAIRS_PER_ROUND {
            pair(&locks).await?;
        }
        of_ours.push(begin.elapsed());
    }
    let (raw, ours) = (rate(of_raw), rate(of_ours));
    println!("raw {raw:.0} pairs/s, mysql engine {ours:.0} pairs/s: {:.2} of raw", ours / raw);
    Ok(())
}
