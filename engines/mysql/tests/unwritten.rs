//! Locks by session that are given back in the server's memory, and written down later.

mod servers;

use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Claim, Clock, Engine, Locks, Patience, Renewal, Standing, Withdrawal};
use lockhouse_mysql::{Hold, Mysql};
use lockhouse_testkit::{Sides, eventually};
use mysql_async::prelude::Queryable;
use servers::{Server, claim, client, number, plain, tables, tell};
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(30);

fn session(address: &str, tables: &str) -> Mysql {
    Mysql::at(address).unwrap().tables(tables).unwrap().hold(Hold::Session)
}

/// A server without a binary log, which one that is given to the tests may have.
fn shared() -> String {
    static SHARED: LazyLock<String> = LazyLock::new(|| Server::start(&[]).keep());
    SHARED.clone()
}

/// The front of a client whose keeper writes nothing down.
async fn front(address: &str, tables: &str) -> Arc<dyn Engine> {
    Sides::of(&session(address, tables)).await.front
}

/// A name that no other test uses: `GET_LOCK`'s are the server's, whatever the tables.
fn unique() -> String {
    format!("{:08x}", rand::random::<u32>())
}

/// A claim that has the lock of a name which nobody else seems to want, and its token.
async fn granted(front: &dyn Engine, name: &str) -> (Claim, u64) {
    let (first, second) = (claim(name), claim(name));
    assert!(matches!(front.claim(&first).await.unwrap(), Standing::Granted { .. }));
    assert_eq!(front.withdraw(&first).await.unwrap(), Withdrawal::Withdrawn);
    match front.claim(&second).await.unwrap() {
        Standing::Granted { token } => (second, token),
        standing => panic!("{standing:?}"),
    }
}

async fn quiet(front: &dyn Engine, name: &str) -> Claim {
    granted(front, name).await.0
}

/// How many claims are in the locks' rows, and how many were given back in memory.
async fn stored(address: &str, tables: &str) -> (i64, i64) {
    let in_rows = number(address, &format!("SELECT COUNT(id) FROM {tables}_locks")).await;
    (in_rows, number(address, &format!("SELECT COUNT(*) FROM {tables}_released")).await)
}

#[tokio::test]
async fn what_is_given_back_in_memory_is_over_for_every_verb() {
    let (address, tables, name) = (shared(), tables(), unique());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    let over = quiet(&*front, &name).await;
    assert!(!other.front.survey("").await.unwrap().is_empty());
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await, (1, 1), "it was written down at once");
    assert_eq!(other.front.survey("").await.unwrap(), []);
    assert_eq!(front.renew(from_ref(&over)).await.unwrap(), [Renewal::Gone]);
    assert!(!other.front.evict(&over.name, &over.id.public()).await.unwrap());
    assert_eq!(front.claim(&over).await.unwrap(), Standing::Displaced);
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::NotThere);
}

#[tokio::test]
async fn what_is_given_back_in_memory_is_free_for_who_comes_next() {
    let (address, tables) = (shared(), tables());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    for (name, patience) in [(unique(), Patience::None), (unique(), Patience::Waits), (unique(), Patience::Barges)] {
        let (over, token) = granted(&*front, &name).await;
        front.withdraw(&over).await.unwrap();
        let next = Claim { patience, ..claim(&name) };
        match other.front.claim(&next).await.unwrap() {
            Standing::Granted { token: newer } => assert_eq!(newer, token + 1),
            standing => panic!("{patience:?}: {standing:?}"),
        }
        // Nor does it come back.
        assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::NotThere);
        assert_eq!(other.keeper.renew(from_ref(&next)).await.unwrap(), [Renewal::Renewed]);
    }
}

/// A table in memory is locked as a whole: who has it must not wait for a row, or everybody does.
#[tokio::test]
async fn giving_back_in_memory_waits_for_no_row() {
    let (address, tables, name) = (shared(), tables(), unique());
    let front = front(&address, &tables).await;
    let over = quiet(&*front, &name).await;
    let mut stopped = plain(&address).await;
    stopped.query_drop(format!("START TRANSACTION; SELECT 1 FROM {tables}_locks FOR UPDATE")).await.unwrap();
    let withdrawn = tokio::time::timeout(Duration::from_secs(2), front.withdraw(&over)).await;
    assert_eq!(withdrawn.expect("it waits for nobody").unwrap(), Withdrawal::Withdrawn);
}

#[tokio::test]
async fn the_next_claim_of_the_same_client_writes_it_down() {
    let (address, tables, name) = (shared(), tables(), unique());
    let front = front(&address, &tables).await;
    let (over, token) = granted(&*front, &name).await;
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    // The long way leads through the gate.
    let mut stopped = plain(&address).await;
    stopped.query_drop(format!("START TRANSACTION; SELECT 1 FROM {tables}_gates FOR UPDATE")).await.unwrap();
    let next = claim(&name);
    let standing = tokio::time::timeout(Duration::from_secs(2), front.claim(&next)).await;
    assert_eq!(standing.expect("it waits for nobody").unwrap(), Standing::Granted { token: token + 1 });
}

/// Its release did not see yet that others came, and they did not see the release.
#[tokio::test]
async fn who_joined_just_before_a_lock_was_given_back_in_memory_gets_in() {
    let (address, tables, name) = (shared(), tables(), unique());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    let (over, waiter) = (quiet(&*front, &name).await, claim(&name));
    assert!(matches!(other.front.claim(&waiter).await.unwrap(), Standing::Queued { .. }));
    let told = format!("INSERT INTO {tables}_released SELECT id, lease_end FROM {tables}_claims WHERE state = 0");
    tell(&address, &told).await;
    tokio::time::timeout(Duration::from_secs(5), other.front.moved(&waiter)).await.expect("it is woken").unwrap();
    assert!(matches!(other.front.claim(&waiter).await.unwrap(), Standing::Granted { .. }));
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::NotThere);
}

#[tokio::test]
async fn what_was_given_back_in_memory_is_written_down() {
    let (address, tables) = (shared(), tables());
    let client = Sides::of(&session(&address, &tables)).await;
    let names = [unique(), unique(), unique()];
    for name in &names {
        let over = quiet(&*client.front, name).await;
        assert_eq!(client.front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    }
    eventually(LONG, "it is written down", async || stored(&address, &tables).await == (0, 0)).await;
    // Nothing of it is remembered that would do harm to others.
    let other = self::client(&address, &tables).await;
    assert!(matches!(other.front.claim(&claim(&names[0])).await.unwrap(), Standing::Granted { .. }));
    let impatient = Claim { patience: Patience::None, ..claim(&names[0]) };
    assert_eq!(client.front.claim(&impatient).await.unwrap(), Standing::Refused);
}

/// It moved into the line just before it was given back, and nobody has looked since.
#[tokio::test]
async fn what_stands_in_a_line_is_written_down_as_well() {
    let (address, tables, name) = (shared(), tables(), unique());
    let client = Sides::of(&session(&address, &tables)).await;
    let over = quiet(&*client.front, &name).await;
    let columns = "id, name, turn, weight, capacity, lease_end, since, evicted, lingers, owner, note";
    let moves = format!(
        "INSERT INTO {tables}_claims ({columns}, state, arrived, token) SELECT {columns}, 0, 0, newest FROM {tables}_locks"
    );
    // Both at once would be the race; here its row is left as well, so that the release finds it.
    tell(&address, &moves).await;
    assert_eq!(client.front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    let left = format!("SELECT COUNT(*) FROM {tables}_claims");
    eventually(LONG, "it is written down", async || number(&address, &left).await == 0).await;
    eventually(LONG, "it is written down", async || stored(&address, &tables).await == (0, 0)).await;
}

/// A table in memory is locked as a whole, and whoever waits to write to it would keep out all who only read.
#[tokio::test]
async fn a_slow_reader_keeps_nobody_waiting_but_who_gives_back_and_that_not_for_long() {
    let (address, tables) = (shared(), tables());
    let (name, other_name) = (unique(), unique());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    let (held, over) = (claim(&other_name), quiet(&*front, &name).await);
    other.front.claim(&held).await.unwrap();
    let rows = "(x'01', UTC_TIMESTAMP(6)), (x'02', UTC_TIMESTAMP(6))";
    tell(&address, &format!("INSERT INTO {tables}_released VALUES {rows}")).await;
    let (mut slow, mut observer) = (plain(&address).await, plain(&address).await);
    let mut working = JoinSet::new();
    let sleep = format!("SELECT SLEEP(6) FROM {tables}_released");
    working.spawn(async move { drop(slow.query_drop(sleep).await) });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let releasing = async {
        let begin = Clock::Boot.now();
        assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
        let waited = Clock::Boot.now().since(begin);
        assert!(waited < Duration::from_secs(6), "it waited for {waited:?}");
    };
    let passing = async {
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%lock'";
        for _ in 0..100 {
            if observer.query_first::<i64, _>(waits).await.unwrap() > Some(0) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let begin = Clock::Boot.now();
        assert_eq!(other.keeper.renew(from_ref(&held)).await.unwrap(), [Renewal::Renewed]);
        let impatient = Claim { patience: Patience::None, ..claim(&other_name) };
        assert_eq!(other.front.claim(&impatient).await.unwrap(), Standing::Refused);
        assert!(matches!(other.front.claim(&claim(&other_name)).await.unwrap(), Standing::Queued { .. }));
        let waited = Clock::Boot.now().since(begin);
        assert!(waited < Duration::from_secs(1), "they waited for {waited:?}");
    };
    tokio::join!(releasing, passing);
    working.abort_all();
}

/// One finds out for all of them that the table is not to be had.
#[tokio::test]
async fn many_releases_beside_a_slow_reader_wait_together_and_not_one_after_the_other() {
    let (address, tables, run) = (shared(), tables(), unique());
    let front = front(&address, &tables).await;
    let mut over = Vec::new();
    for at in 0..30 {
        over.push(quiet(&*front, &format!("{run}-{at}")).await);
    }
    let rows = "(x'01', UTC_TIMESTAMP(6)), (x'02', UTC_TIMESTAMP(6))";
    tell(&address, &format!("INSERT INTO {tables}_released VALUES {rows}")).await;
    let (mut slow, mut working) = (plain(&address).await, JoinSet::new());
    let sleep = format!("SELECT SLEEP(8) FROM {tables}_released");
    working.spawn(async move { drop(slow.query_drop(sleep).await) });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begin = Clock::Boot.now();
    let withdrawals = join_all(over.iter().map(|claim| front.withdraw(claim))).await;
    let took = Clock::Boot.now().since(begin);
    assert!(withdrawals.into_iter().all(|withdrawal| withdrawal.unwrap() == Withdrawal::Withdrawn));
    assert!(took < Duration::from_secs(6), "they took {took:?}");
}

#[tokio::test]
async fn a_lock_that_is_not_there_is_not_given_back_in_memory() {
    let (address, tables) = (shared(), tables());
    let (name, other_name) = (unique(), unique());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    let removed = quiet(&*front, &name).await;
    tell(&address, &format!("UPDATE {tables}_locks SET id = NULL")).await;
    assert_eq!(front.withdraw(&removed).await.unwrap(), Withdrawal::NotThere);
    // Others wait: it is written down at once.
    let (holder, waiter) = (quiet(&*front, &other_name).await, claim(&other_name));
    assert!(matches!(other.front.claim(&waiter).await.unwrap(), Standing::Queued { .. }));
    assert_eq!(front.withdraw(&holder).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await, (0, 0));
    assert!(matches!(other.front.claim(&waiter).await.unwrap(), Standing::Granted { .. }));
}

/// One client that takes and gives back as fast as it can, and others that come in between: whoever joins at the very
/// moment in which the lock is given back must not wait for the end of a lease.
#[tokio::test(flavor = "multi_thread")]
async fn who_joins_while_a_lock_is_given_back_in_memory_gets_in_soon() {
    let (address, tables, name) = (shared(), tables(), unique());
    let (is_held, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut working = JoinSet::new();
    for pause in [0, 60, 90, 110] {
        let hold = if pause == 110 { Hold::Lease } else { Hold::Session };
        let locks = Locks::new(session(&address, &tables).hold(hold)).await.unwrap();
        let (name, is_held, is_over) = (name.clone(), Arc::clone(&is_held), Arc::clone(&is_over));
        working.spawn(async move {
            let mut pairs = 0;
            while !is_over.load(Ordering::Acquire) {
                let begin = Clock::Boot.now();
                let guard = locks.mutex(&name).ttl(Duration::from_secs(20)).wait(LONG).lock().await.unwrap();
                let waited = Clock::Boot.now().since(begin);
                assert!(waited < Duration::from_secs(5), "it waited for {waited:?}");
                assert!(!is_held.swap(true, Ordering::AcqRel), "two have it");
                is_held.store(false, Ordering::Release);
                guard.release().await.unwrap();
                pairs += 1;
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            pairs
        });
    }
    let (begin, mut seen) = (Clock::Boot.now(), 0);
    while Clock::Boot.now().since(begin) < Duration::from_secs(4) {
        seen = seen.max(stored(&address, &tables).await.1);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    is_over.store(true, Ordering::Release);
    assert!(seen > 0, "nothing was given back in memory");
    let pairs = working.join_all().await;
    assert!(pairs.iter().all(|pairs| *pairs > 10), "{pairs:?}");
}

#[tokio::test]
async fn what_a_crash_of_the_server_forgets_is_free_when_its_lease_is_over() {
    let server = Server::start(&[]);
    let (address, tables, name) = (server.address(), tables(), unique());
    let ttl = Duration::from_secs(15);
    let begin = {
        let front = front(&address, &tables).await;
        let first = quiet(&*front, &name).await;
        front.withdraw(&first).await.unwrap();
        let (begin, over) = (Clock::Boot.now(), Claim { ttl, ..claim(&name) });
        front.claim(&over).await.unwrap();
        assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
        begin
    };
    server.kill();
    server.restart();
    assert_eq!(stored(&address, &tables).await, (1, 0), "it was kept in memory");
    let (other, next) = (client(&address, &tables).await, Claim { patience: Patience::None, ..claim(&name) });
    let standing = other.front.claim(&next).await.unwrap();
    // Unless the server took that long.
    if Clock::Boot.now().since(begin) < ttl {
        assert_eq!(standing, Standing::Refused);
    }
    eventually(LONG, "its lease ends", async || {
        matches!(other.front.claim(&next).await.unwrap(), Standing::Granted { .. })
    })
    .await;
}

#[tokio::test]
async fn a_server_without_room_for_it_writes_down_at_once() {
    let server = Server::start(&["--max-heap-table-size=16384"]);
    let (address, tables, name) = (server.address(), tables(), unique());
    let front = front(&address, &tables).await;
    let over = quiet(&*front, &name).await;
    let mut filler = plain(&address).await;
    let fill = format!("INSERT INTO {tables}_released SELECT UNHEX(MD5(RAND())), UTC_TIMESTAMP(6)");
    while filler.query_drop(&fill).await.is_ok() {}
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await.0, 0);
    let again = quiet(&*front, &name).await;
    assert_eq!(front.withdraw(&again).await.unwrap(), Withdrawal::Withdrawn);
}

#[tokio::test]
async fn a_server_that_keeps_no_tables_in_memory_writes_down_at_once() {
    let server = Server::start(&["--enforce-storage-engine=InnoDB"]);
    let (address, tables, name) = (server.address(), tables(), unique());
    let front = front(&address, &tables).await;
    let over = quiet(&*front, &name).await;
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await, (0, 0));
}

#[tokio::test]
async fn nothing_is_kept_in_memory_where_others_are_told_of_every_change() {
    let server = Server::start(&["--log-bin=log", "--server-id=1", "--binlog-format=ROW"]);
    let (address, tables, name) = (server.address(), tables(), unique());
    let front = front(&address, &tables).await;
    let engine = "SELECT COUNT(*) FROM information_schema.TABLES WHERE ENGINE = 'MEMORY' AND TABLE_SCHEMA = DATABASE()";
    assert_eq!(number(&address, engine).await, 0);
    let over = quiet(&*front, &name).await;
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await, (0, 0));
}

#[tokio::test]
async fn tables_of_version_2_are_brought_up_to_date() {
    let (address, tables, name) = (shared(), tables(), unique());
    let before = client(&address, &tables).await;
    let holder = claim(&name);
    before.front.claim(&holder).await.unwrap();
    tell(&address, &format!("DROP TABLE {tables}_released")).await;
    tell(&address, &format!("UPDATE {tables}_schema SET version = 2")).await;
    let front = front(&address, &tables).await;
    let impatient = Claim { patience: Patience::None, ..claim(&name) };
    assert_eq!(front.claim(&impatient).await.unwrap(), Standing::Refused);
    assert_eq!(before.front.withdraw(&holder).await.unwrap(), Withdrawal::Withdrawn);
    let over = quiet(&*front, &name).await;
    front.withdraw(&over).await.unwrap();
    assert_eq!(stored(&address, &tables).await, (1, 1));
}
