//! Locks on ZooKeeper as a part of what ZooKeeper itself can do, measured in turns: uncontended locks beside a node
//! that is created and deleted by the same driver, with one task and with 64; then hand-overs beside kazoo's `Lock`.
//!
//! `cargo run --release -p lockhouse-bench --example zookeeper` starts a server of its own, and installs kazoo into an
//! environment of its own below the target folder.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_bench::{CONTENDERS, CONTEST, Handed, Outcome, Server, contest, in_turns, our_turn, ours};
use lockhouse_testkit::python_with;
use zookeeper_client::{Acls, Client, CreateMode};

/// In a round: so many, and no fewer than this for each task.
const PAIRS: u32 = 256;
const EACH: u32 = 32;
const CONTESTS: usize = 3;

/// So many nodes created and deleted, below one of the task's own.
async fn pairs(client: Arc<Client>, task: u32, pairs: u32) -> Outcome<()> {
    let prefix = format!("/raw/orders/{task}/_c_f1b8bd0e-6d36-4c68-9d0a-2c1d2ab7f5a0-lock-");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    for _ in 0..pairs {
        let (_, sequence) = client.create(&prefix, b"alice@web-1:4711", &options).await?;
        client.delete(&format!("{prefix}{sequence}"), None).await?;
    }
    Ok(())
}

/// kazoo's lock, contended for by as many.
fn kazoo(python: &Path, host: &str) -> Outcome<Handed> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kazoo_lock.py");
    let arguments = [script, host, &CONTENDERS.to_string(), &CONTEST.as_secs_f64().to_string()];
    let said = String::from_utf8(Command::new(python).args(arguments).output()?.stdout)?;
    let (grants, p99) = said.trim().split_once(' ').ok_or("kazoo says nothing: see whether it is installed")?;
    Ok(Handed { grants: grants.parse()?, p99: Duration::from_secs_f64(p99.parse()?) })
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let server = Server::zookeeper()?;
    let host = format!("127.0.0.1:{}", server.port);
    let connect = || async { lockhouse::connect(&format!("zookeeper://{host}/ours")).await };
    let raw = Arc::new(Client::connector().with_session_timeout(Duration::from_secs(30)).connect(&host).await?);
    let locks = connect().await?;
    for task in 0..64 {
        let line = CreateMode::Persistent.with_acls(Acls::anyone_all());
        raw.mkdir(&format!("/raw/orders/{task}"), &line).await?;
    }
    for tasks in [1, 64] {
        let compared = in_turns(
            tasks,
            PAIRS.max(tasks * EACH),
            |task, count| pairs(Arc::clone(&raw), task, count),
            |task, count| ours(locks.clone(), task, count),
        );
        println!("{}", compared.await?);
    }
    let clients = [locks, connect().await?];
    let python = python_with("kazoo", Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tmp")));
    for _ in 0..CONTESTS {
        println!("hand-over, kazoo: {}", kazoo(&python, &host)?);
        let clients = clients.clone();
        let ours = contest(move |contender, referee| our_turn(clients.clone(), contender, referee));
        println!("hand-over, ours: {}", ours.await?);
    }
    Ok(())
}
