//! Uncontended locks on Redis as a part of what the driver itself does with the same two scripts, measured in turns:
//! one task, and 64 tasks that share the connection.
//!
//! `cargo run --release -p lockhouse-bench --example redis`

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockhouse::Locks;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{IntoConnectionInfo, Script, cmd};

macro_rules! lua {
    ($($file:literal)+) => {
        concat!($(include_str!(concat!("../../../engines/redis/src/lua/", $file, ".lua"))),+)
    };
}

const CLAIM: &str = lua!("begin" "take" "line" "claim");
const WITHDRAW: &str = lua!("begin" "drop" "line" "withdraw");
const ROUNDS: usize = 31;
const PAIRS_PER_ROUND: u32 = 2_000;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The driver, and no more: a connection, and both scripts by their names.
#[derive(Clone)]
struct Raw {
    connection: MultiplexedConnection,
    claim: String,
    withdraw: String,
    run_id: String,
}

impl Raw {
    async fn connect(url: &str) -> Outcome<Self> {
        // As the engine connects: RESP3, and every request is sent at once.
        let info = format!("{url}/?protocol=resp3").into_connection_info()?;
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let mut connection = redis::Client::open(info)?.get_multiplexed_async_connection().await?;
        let info: String = cmd("INFO").arg("server").query_async(&mut connection).await?;
        let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().trim().to_owned();
        // Nobody was there before: the server may give locks away at once.
        cmd("SET").arg("lockhouse:\ttokens").arg(format!("0 {run_id} 0")).exec_async(&mut connection).await?;
        for script in [CLAIM, WITHDRAW] {
            cmd("SCRIPT").arg("LOAD").arg(script).exec_async(&mut connection).await?;
        }
        let [claim, withdraw] = [CLAIM, WITHDRAW].map(|script| Script::new(script).get_hash().to_owned());
        Ok(Self { connection, claim, withdraw, run_id })
    }

    async fn pair(&mut self, name: &str, id: u128) -> Outcome<()> {
        let id = format!("{id:032x}");
        let holder = format!("lockhouse:{name}");
        let keys = ["claims", "waiters", "leases"].map(|key| format!("{{{holder}}}\t{key}"));
        for (script, arguments) in [
            (&self.claim, &["1", "1", "0", "1", "30000", "0", "0", "lockhouse:client:x", "bench"][..]),
            (&self.withdraw, &[]),
        ] {
            let mut command = cmd("EVALSHA");
            command.arg(script).arg(5).arg(&holder).arg(&keys).arg("lockhouse:\ttokens");
            command.arg(&self.run_id).arg(0).arg(&id).arg(arguments);
            let _: redis::Value = command.query_async(&mut self.connection).await?;
        }
        Ok(())
    }
}

async fn ours(locks: Locks, name: String, pairs: u32) -> Outcome<()> {
    let mutex = locks.mutex(name).ttl(Duration::from_secs(30));
    for _ in 0..pairs {
        mutex.lock().await?.release().await?;
    }
    Ok(())
}

async fn raws(mut raw: Raw, name: String, pairs: u32) -> Outcome<()> {
    for pair in 0..pairs {
        raw.pair(&name, u128::from(pair)).await?;
    }
    Ok(())
}

/// How long so many tasks take for a round.
async fn round<F>(tasks: u32, work: impl Fn(String, u32) -> F) -> Outcome<Duration>
where
    F: Future<Output = Outcome<()>> + Send + 'static,
{
    let begin = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for task in 0..tasks {
        all.spawn(work(format!("bench/{task}"), PAIRS_PER_ROUND / tasks));
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    Ok(begin.elapsed())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let _server = Server(command.stdout(Stdio::null()).spawn()?);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let url = format!("redis://127.0.0.1:{port}");
    let raw = Raw::connect(&url).await?;
    let locks = lockhouse::connect(&url).await?;
    for tasks in [1, 64] {
        let pairs = f64::from(PAIRS_PER_ROUND / tasks * tasks);
        let (mut raws_rates, mut our_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let of_raw = round(tasks, |name, pairs| raws(raw.clone(), name, pairs)).await?.as_secs_f64();
            let of_ours = round(tasks, |name, pairs| ours(locks.clone(), name, pairs)).await?.as_secs_f64();
            raws_rates.push(pairs / of_raw);
            our_rates.push(pairs / of_ours);
            // What else the machine does meets both rounds of a pair alike, so they are compared with each other.
            ratios.push(of_raw / of_ours);
        }
        let (raw, ours, ratio) = (median(raws_rates), median(our_rates), median(ratios));
        println!("{tasks} tasks: raw {raw:.0} pairs/s, redis engine {ours:.0} pairs/s: {ratio:.2} of raw");
    }
    Ok(())
}
