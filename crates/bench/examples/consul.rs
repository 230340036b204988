//! Locks on Consul as a part of what Consul itself can do, measured in turns: uncontended locks beside a key that is
//! acquired and released, with one task and with 32; then hand-overs beside Consul's own recipe for waiting.
//! `cargo run --release -p lockhouse-bench --example consul` starts a server of its own.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::sync::Arc;

use futures_util::future::try_join_all;
use lockhouse_bench::{Outcome, RawConsul, Server, contest, in_turns, our_turn, ours};
use tokio::sync::Mutex;

/// In a round: so many, and no fewer than this for each task.
const PAIRS: u32 = 128;
const EACH: u32 = 16;
const MANY: u32 = 32;
const CONTESTS: usize = 3;
/// What all want.
const CONTENDED: &str = "raw/handed/.lock";

#[tokio::main]
async fn main() -> Outcome<()> {
    let server = Server::consul()?;
    let host = format!("127.0.0.1:{}", server.port);
    let connect = || async { lockhouse::connect(&format!("consul://{host}")).await };
    // First, since it waits until the server leads.
    let locks = connect().await?;
    let raws = try_join_all((0..MANY).map(async |_| RawConsul::connect(&host).await.map(Mutex::new))).await?;
    let raws = Arc::new(raws);
    for tasks in [1, MANY] {
        let theirs = |task: u32, pairs| {
            let raws = Arc::clone(&raws);
            async move {
                let mut raw = raws[task as usize].lock().await;
                for _ in 0..pairs {
                    raw.pair(task).await?;
                }
                Ok(())
            }
        };
        let compared =
            in_turns(tasks, PAIRS.max(tasks * EACH), theirs, |task, pairs| ours(locks.clone(), task, pairs)).await?;
        println!("{compared}");
    }
    let clients = [locks, connect().await?];
    for _ in 0..CONTESTS {
        let (raws, clients) = (Arc::clone(&raws), clients.clone());
        let theirs = contest(move |contender, referee| {
            let raws = Arc::clone(&raws);
            async move {
                let mut raw = raws[contender as usize].lock().await;
                raw.lock(CONTENDED).await?;
                referee.turn();
                raw.release(CONTENDED).await
            }
        });
        println!("hand-over, Consul's own recipe: {}", theirs.await?);
        let ours = contest(move |contender, referee| our_turn(clients.clone(), contender, referee));
        println!("hand-over, ours: {}", ours.await?);
    }
    Ok(())
}
