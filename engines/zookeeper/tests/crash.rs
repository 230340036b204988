//! Sessions that end: of a holder that is killed, in a process of its own, and of one that lives.

mod servers;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockhouse_core::{Locks, Loss};
use lockhouse_testkit::eventually;
use lockhouse_zookeeper::ZooKeeper;
use servers::shared;
use zookeeper_client::Client;

const SESSION: Duration = Duration::from_secs(4);
/// Where the holder is told to hold.
const VARIABLE: &str = "LOCKHOUSE_HOLD_AT";

async fn locks(address: &str) -> Locks {
    Locks::new(ZooKeeper::at(address).unwrap().session(SESSION).unwrap()).await.unwrap()
}

/// Not a test: what the test below starts as a separate process. It holds the lock until it is killed.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a process is told what to do by its environment")]
#[expect(clippy::print_stdout, reason = "it tells the test that it holds the lock")]
async fn holder() {
    let Ok(address) = std::env::var(VARIABLE) else { return };
    let locks = locks(&address).await;
    let _guard = locks.mutex("a").lock().await.unwrap();
    println!("\nholding");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_is_in_within_the_session_and_a_second() {
    let address = format!("{}/crash-{:08x}", shared(), rand::random::<u32>());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["holder", "--exact", "--nocapture"])
        .env(VARIABLE, &address)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "holding")), "it holds the lock");
    let locks = locks(&address).await;
    let mutex = locks.mutex("a");
    let waiter = mutex.lock();
    tokio::pin!(waiter);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut waiter).await.is_err(), "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    let guard = tokio::time::timeout(SESSION * 3, waiter).await.expect("the session ends").unwrap();
    let waited = killed.elapsed();
    assert!(waited <= SESSION + Duration::from_secs(1), "it took {waited:?}");
    guard.release().await.unwrap();
}

/// Ends somebody's session, as an administrator does: whoever knows its password may close it. The servers make that
/// from its id, by Java's `Random` and a number that their source has.
fn end(server: &str, session: i64) {
    let mut seed = (session.cast_unsigned() ^ 0xb341_5c00 ^ 0x5_deec_e66d) & 0xffff_ffff_ffff;
    let mut next = || {
        seed = seed.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        u32::try_from(seed >> 16).unwrap().to_le_bytes()
    };
    let password = [next(), next(), next(), next()].concat();
    // The protocol's version and the last change that was seen, the time-out, the session, and that writes are wanted.
    let connect =
        [&[0; 12][..], &10_000_i32.to_be_bytes(), &session.to_be_bytes(), &16_i32.to_be_bytes(), &password, &[0]]
            .concat();
    let close = [1_i32.to_be_bytes(), (-11_i32).to_be_bytes()].concat();
    let framed = |request: Vec<u8>| [&u32::try_from(request.len()).unwrap().to_be_bytes(), &request[..]].concat();
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(SESSION)).unwrap();
    stream.write_all(&[framed(connect), framed(close)].concat()).unwrap();
    // Until the server hangs up: the session is over, or its own client has taken it back.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_at_the_servers_is_a_loss() {
    let root = format!("/ended-{:08x}", rand::random::<u32>());
    let server = shared().trim_start_matches('/').split(',').next().unwrap().to_owned();
    let locks = locks(&format!("{}{root}", shared())).await;
    let guard = locks.mutex("a").lock().await.unwrap();
    let plain = Client::connect(&server).await.unwrap();
    let node = plain.list_children(&format!("{root}/a")).await.unwrap().remove(0);
    let (_, stat) = plain.get_data(&format!("{root}/a/{node}")).await.unwrap();
    let over = async || {
        let server = server.clone();
        tokio::task::spawn_blocking(move || end(&server, stat.ephemeral_owner)).await.unwrap();
        plain.list_children(&format!("{root}/a")).await.unwrap_or_default().is_empty()
    };
    eventually(SESSION, "the session is over", over).await;
    // By the next renewal, and not only by the end of the lease.
    let loss = tokio::time::timeout(SESSION, guard.lost()).await.expect("told");
    assert_eq!(loss, Loss::Gone);
    assert!(guard.check().is_err());
    // The client goes on with another session, and what was lost is not given back by it.
    let next = locks.mutex("a").lock().await.unwrap();
    assert!(next.token() > guard.token());
    drop(guard);
    tokio::time::sleep(SESSION / 2).await;
    next.check().unwrap();
    next.release().await.unwrap();
}
