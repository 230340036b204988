//! Locks that a connection holds, beside the programs that they are to keep out: the `mariadb` client, and whatever it
//! is told to run.

mod servers;

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lockhouse_core::{Clock, Connector, Kind, Locks, Side, Standing};
use lockhouse_mysql::{Hold, Mysql};
use lockhouse_testkit::{Cut, Proxy, Wire, claim, eventually};
use servers::{Server, number, shared, tell};
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(30);
/// What a silent cut may take, as the engine documents it.
const BOUND: Duration = Duration::from_secs(25);

/// The key of a name, worked out as the README says.
fn key(name: &str) -> String {
    format!("CONCAT('lockhouse:', LEFT(SHA2('{name}', 256), 54))")
}

/// A `mariadb` client that carries out statements and says when it has the lock.
struct Stranger(Child);

impl Stranger {
    /// Carries the statements out, and stays connected.
    fn new(address: &str, statements: &str) -> Self {
        let place = address.rsplit_once('@').expect("an account").1;
        let (host, database) = place.split_once('/').expect("a database");
        let (host, port) = host.split_once(':').expect("a port");
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--protocol=tcp", "--user=root", "--host", host, "--port", port, "--database"]);
        command.arg(database).args(["--unbuffered", "--force"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{statements}").unwrap();
        Self(child)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn locks(address: &str, hold: Hold) -> Locks {
    Locks::new(Mysql::at(address).unwrap().hold(hold)).await.unwrap()
}

/// What a stranger says to take the lock of a name, and to write down that it has it.
fn take(hold: Hold, name: &str) -> String {
    let take = match hold {
        Hold::Session => format!("SELECT GET_LOCK({}, 60);", key(name)),
        _ => format!("START TRANSACTION; SELECT 1 FROM lockhouse_rows WHERE name = '{name}' FOR UPDATE;"),
    };
    // A table of another kind: what is written to it is there before the transaction ends.
    format!(
        "CREATE TABLE IF NOT EXISTS told (who VARCHAR(99)) ENGINE = Aria;\n{take}\nINSERT INTO told VALUES ('{name}');"
    )
}

async fn has_it(address: &str, name: &str) -> bool {
    let table = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'told'";
    number(address, table).await > 0
        && number(address, &format!("SELECT COUNT(*) FROM told WHERE who = '{name}'")).await > 0
}

async fn excludes_both_ways(hold: Hold) {
    let address = shared();
    let locks = locks(&address, hold).await;
    let name = format!("{hold:?}-{:08x}", rand::random::<u32>());
    // Ours first: a stranger waits until it is given back.
    let guard = locks.mutex(&name).lock().await.unwrap();
    let stranger = Stranger::new(&address, &take(hold, &name));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!has_it(&address, &name).await, "{hold:?}: a stranger got in");
    guard.check().unwrap();
    guard.release().await.unwrap();
    eventually(LONG, "the stranger gets in", async || has_it(&address, &name).await).await;
    // Theirs now: a try is refused, a waiter waits, and gets in when they are gone.
    assert!(locks.mutex(&name).try_lock().await.unwrap().is_none(), "{hold:?}: in beside a stranger");
    let mutex = locks.mutex(&name).ttl(Duration::from_secs(2)).wait(LONG);
    let mut waiting = std::pin::pin!(mutex.lock());
    assert!(
        tokio::time::timeout(Duration::from_secs(3), &mut waiting).await.is_err(),
        "{hold:?}: in beside a stranger"
    );
    drop(stranger);
    let guard = waiting.await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// Whether no connection has the lock of a name.
async fn is_open(address: &str, name: &str) -> bool {
    number(address, &format!("SELECT IS_FREE_LOCK({})", key(name))).await == 1
}

#[tokio::test]
async fn a_bolt_that_was_shut_in_advance_is_opened_by_who_has_to_wait() {
    let (address, name) = (shared(), format!("advance-{:08x}", rand::random::<u32>()));
    let (ours, other) = (locks(&address, Hold::Session).await, locks(&address, Hold::Lease).await);
    // A lock that nobody else seems to want.
    for _ in 0..3 {
        ours.mutex(&name).lock().await.unwrap().release().await.unwrap();
    }
    // It is held by a lease now, which shuts nothing.
    let guard = other.mutex(&name).lock().await.unwrap();
    assert!(is_open(&address, &name).await);
    let mutex = ours.mutex(&name).wait(LONG);
    let mut waiting = std::pin::pin!(mutex.lock());
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut waiting).await.is_err(), "in beside a lease");
    assert!(is_open(&address, &name).await, "shut by a claim that waits");
    assert!(guard.token() > 3);
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap();
    assert!(!is_open(&address, &name).await, "held, and not shut");
    guard.release().await.unwrap();
    assert!(is_open(&address, &name).await, "given back, and still shut");
}

/// The keeper renews a waiter at the moment in which its bolt is shut in advance, or is opened again.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_shuts_no_bolt_for_a_claim_that_waits() {
    let (address, name) = (shared(), format!("renewed-{:08x}", rand::random::<u32>()));
    let mysql = Mysql::at(&address).unwrap().hold(Hold::Session);
    let keeper = mysql.connect(Side::Keeper).await.unwrap();
    let front = mysql.connect(Side::Front).await.unwrap();
    let other = locks(&address, Hold::Lease).await;
    for round in 0..40 {
        let (first, waiter) = (claim(&name), claim(&name));
        front.claim(&first).await.unwrap();
        front.withdraw(&first).await.unwrap();
        let guard = other.mutex(&name).lock().await.unwrap();
        let asking = async {
            assert!(matches!(front.claim(&waiter).await.unwrap(), Standing::Queued { .. }));
            // As long as it waits, it is being asked for.
            let _ = tokio::time::timeout(Duration::from_millis(30), front.moved(&waiter)).await;
        };
        let renewing = async {
            for _ in 0..6 {
                keeper.renew(std::slice::from_ref(&waiter)).await.unwrap();
            }
        };
        tokio::join!(asking, renewing);
        assert!(is_open(&address, &name).await, "round {round}: shut by a claim that waits");
        front.withdraw(&waiter).await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_given_back_is_free_although_its_client_ends_at_once() {
    let (address, name) = (shared(), format!("brief-{:08x}", rand::random::<u32>()));
    let next = locks(&address, Hold::Lease).await;
    for hold in [Hold::Session, Hold::Row].into_iter().cycle().take(20) {
        let brief = locks(&address, hold).await;
        // At the second time nobody else seems to want it.
        for _ in 0..2 {
            brief.mutex(&name).lock().await.unwrap().release().await.unwrap();
        }
        drop(brief);
        let guard = next.mutex(&name).try_lock().await.unwrap().expect("it is free");
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn get_lock_of_others_and_ours_exclude_each_other() {
    excludes_both_ways(Hold::Session).await;
}

#[tokio::test]
async fn a_row_that_others_have_locked_and_ours_exclude_each_other() {
    excludes_both_ways(Hold::Row).await;
}

#[tokio::test]
async fn readers_of_a_row_are_in_together_and_strangers_that_write_are_not() {
    let address = shared();
    let (a, b) = (locks(&address, Hold::Row).await, locks(&address, Hold::Row).await);
    let name = format!("readers-{:08x}", rand::random::<u32>());
    let (one, two) = (a.rwlock(&name).read().await.unwrap(), b.rwlock(&name).read().await.unwrap());
    let _stranger = Stranger::new(&address, &take(Hold::Row, &name));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!has_it(&address, &name).await, "a stranger writes beside readers");
    one.release().await.unwrap();
    two.release().await.unwrap();
    eventually(LONG, "the stranger gets in", async || has_it(&address, &name).await).await;
}

/// The holder's connections fall silent: it is told, and only then the database frees what it held.
async fn a_silent_cut_frees_in_bounds(hold: Hold) {
    let address = shared();
    let (account, place) = address.rsplit_once('@').unwrap();
    let (server, database) = place.split_once('/').unwrap();
    let proxy = Proxy::before(server.parse().unwrap());
    let cut_off = locks(&format!("{account}@{}/{database}", proxy.address()), hold).await;
    let name = format!("silent-{hold:?}-{:08x}", rand::random::<u32>());
    let guard = cut_off.mutex(&name).lock().await.unwrap();
    let _stranger = Stranger::new(&address, &take(hold, &name));
    tokio::time::sleep(Duration::from_secs(1)).await;
    proxy.cut(Cut::Silent);
    let begun = Clock::Boot.now();
    eventually(BOUND, "the database frees what was held", async || {
        let (knew, free) = (guard.check().is_err(), has_it(&address, &name).await);
        assert!(knew || !free || guard.check().is_err(), "{hold:?}: a stranger was in before the holder knew");
        free
    })
    .await;
    assert!(Clock::Boot.now().since(begun) < BOUND);
    assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
}

#[tokio::test]
async fn a_silent_cut_frees_a_session_in_bounds_and_its_holder_knows_before() {
    a_silent_cut_frees_in_bounds(Hold::Session).await;
}

#[tokio::test]
async fn a_silent_cut_frees_a_row_in_bounds_and_its_holder_knows_before() {
    a_silent_cut_frees_in_bounds(Hold::Row).await;
}

#[tokio::test]
async fn holds_of_every_kind_exclude_each_other() {
    let address = shared();
    let name = format!("kinds-{:08x}", rand::random::<u32>());
    let clients =
        [locks(&address, Hold::Lease).await, locks(&address, Hold::Session).await, locks(&address, Hold::Row).await];
    for (at, holder) in clients.iter().enumerate() {
        let guard = holder.mutex(&name).lock().await.unwrap();
        for other in clients.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other) {
            assert!(other.mutex(&name).try_lock().await.unwrap().is_none());
        }
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_hundred_sessions_locks_need_few_connections_and_rows_are_counted() {
    let server = Server::start(&[]);
    let address = server.address();
    let sessions = locks(&address, Hold::Session).await;
    let mut guards = Vec::new();
    for at in 0..100 {
        guards.push(sessions.mutex(format!("{at}")).lock().await.unwrap());
    }
    let connections = number(&address, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'root'").await;
    // The one that asks is counted too.
    assert!(connections <= 9, "{connections} connections");
    drop(guards);
    let mysql = Mysql::at(&address).unwrap().hold(Hold::Row).rows(2);
    let rows = Locks::new(mysql).await.unwrap();
    let (one, _two) = (rows.mutex("a").lock().await.unwrap(), rows.mutex("b").lock().await.unwrap());
    let error = rows.mutex("c").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Full, "{error}");
    one.release().await.unwrap();
    assert!(rows.mutex("c").try_lock().await.unwrap().is_some());
}

/// Which connection has the lock of a name.
async fn holder(address: &str, name: &str) -> i64 {
    number(address, &format!("SELECT COALESCE(IS_USED_LOCK({}), 0)", key(name))).await
}

#[tokio::test]
async fn a_connection_that_an_administrator_ends_is_replaced_unless_a_stranger_is_faster() {
    let (address, name) = (shared(), format!("killed-{:08x}", rand::random::<u32>()));
    let locks = locks(&address, Hold::Session).await;
    let guard = locks.mutex(&name).ttl(Duration::from_secs(3)).lock().await.unwrap();
    let first = holder(&address, &name).await;
    tell(&address, &format!("KILL {first}")).await;
    eventually(LONG, "another connection has it", async || ![0, first].contains(&holder(&address, &name).await)).await;
    guard.check().unwrap();
    let _stranger = Stranger::new(&address, &take(Hold::Session, &name));
    let waits =
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND INFO LIKE '%killed-%'";
    let waits = waits.replace("killed-", &name);
    eventually(LONG, "the stranger waits", async || number(&address, &waits).await > 0).await;
    tell(&address, &format!("KILL {}", holder(&address, &name).await)).await;
    tokio::time::timeout(Duration::from_secs(3), guard.lost()).await.expect("told before its lease is over");
    assert!(has_it(&address, &name).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_strangers_keeps_no_release_waiting() {
    let (address, run) = (shared(), rand::random::<u32>());
    let locks = locks(&address, Hold::Session).await;
    let name = |of: &str, at: usize| format!("{of}-{at}-{run:08x}");
    let mut guards = Vec::new();
    for at in 0..100 {
        guards.push(locks.mutex(name("ours", at)).lock().await.unwrap());
    }
    let strangers: Vec<_> =
        (0..5).map(|at| Stranger::new(&address, &take(Hold::Session, &name("theirs", at)))).collect();
    let mut waiters = JoinSet::new();
    for at in 0..20 {
        let theirs = name("theirs", at % 5);
        eventually(LONG, "the stranger is in", async || has_it(&address, &theirs).await).await;
        let mutex = locks.mutex(theirs).wait(LONG);
        waiters.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = Clock::Boot.now();
    for guard in guards {
        guard.release().await.unwrap();
    }
    let took = Clock::Boot.now().since(begun);
    assert!(took < Duration::from_secs(10), "a hundred releases took {took:?}");
    assert!(waiters.try_join_next().is_none(), "in beside a stranger");
    drop(strangers);
    waiters.join_all().await;
}

#[tokio::test]
async fn what_get_lock_cannot_do_is_refused() {
    let sessions = locks(&shared(), Hold::Session).await;
    assert_eq!(sessions.rwlock("r").try_read().await.unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(sessions.semaphore("s", 2).try_acquire(1).await.unwrap_err().kind(), Kind::Unsupported);
}
