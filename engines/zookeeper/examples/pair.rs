//! An uncontended lock on ZooKeeper as a part of what ZooKeeper itself can do, measured in turns: beside a node that is
//! created and deleted by the same driver. Takes the address of a server, `//127.0.0.1:2181` unless one is given.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::time::{Duration, Instant};

use lockhouse_core::Locks;
use lockhouse_zookeeper::ZooKeeper;
use zookeeper_client::{Acls, Client, CreateMode};

const ROUNDS: usize = 21;
const PAIRS_PER_ROUND: u32 = 200;

fn rate(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    f64::from(PAIRS_PER_ROUND) / rounds[ROUNDS / 2].as_secs_f64()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "//127.0.0.1:2181".to_owned());
    let raw = Client::connect(address.trim_start_matches('/')).await?;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    raw.mkdir("/bench/raw", &CreateMode::Container.with_acls(Acls::anyone_all())).await?;
    let locks = Locks::new(ZooKeeper::at(&format!("{address}/bench"))?).await?;
    let (mut of_raw, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..PAIRS_PER_ROUND {
            let (_, sequence) = raw.create("/bench/raw/lock-", b"", &options).await?;
            raw.delete(&format!("/bench/raw/lock-{sequence}"), None).await?;
        }
        of_raw.push(begin.elapsed());
        let begin = Instant::now();
        for _ in 0..PAIRS_PER_ROUND {
            locks.mutex("orders/42").lock().await?.release().await?;
        }
        of_ours.push(begin.elapsed());
    }
    let (raw, ours) = (rate(of_raw), rate(of_ours));
    println!("raw ZooKeeper {raw:.0} pairs/s, zookeeper engine {ours:.0} pairs/s: {:.2} of raw", ours / raw);
    Ok(())
}
