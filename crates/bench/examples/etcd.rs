//! Locks on etcd as a part of what etcd itself can do, measured in turns: uncontended locks beside a transaction and a
//! deletion, with one task and with 64; then hand-overs beside the steps of Go's `concurrency.Mutex`, which
//! `etcdctl lock` takes. `cargo run --release -p lockhouse-bench --example etcd` starts an etcd of its own.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::sync::Arc;

use lockhouse_bench::{GoMutex, Outcome, RawEtcd, Server, contest, in_turns, our_turn, ours};

/// In a round: so many, and no fewer than this for each task.
const PAIRS: u32 = 256;
const EACH: u32 = 32;
const CONTESTS: usize = 3;

#[tokio::main]
async fn main() -> Outcome<()> {
    let server = Server::etcd()?;
    let host = format!("127.0.0.1:{}", server.port);
    let connect = || async { lockhouse::connect(&format!("etcd://{host}")).await };
    let (raw, locks) = (Arc::new(RawEtcd::connect(&host).await?), connect().await?);
    for tasks in [1, 64] {
        let theirs = |task, pairs| {
            let raw = Arc::clone(&raw);
            async move {
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
    let sessions = GoMutex::sessions(&host, "raw/handed").await?;
    for _ in 0..CONTESTS {
        let (sessions, clients) = (Arc::clone(&sessions), clients.clone());
        let theirs = contest(move |contender, referee| {
            let sessions = Arc::clone(&sessions);
            async move { sessions[contender as usize].turn(&referee).await }
        });
        println!("hand-over, the steps of Go's mutex: {}", theirs.await?);
        let ours = contest(move |contender, referee| our_turn(clients.clone(), contender, referee));
        println!("hand-over, ours: {}", ours.await?);
    }
    Ok(())
}
