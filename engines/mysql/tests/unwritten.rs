//! Locks by session that are given back in the server's memory, and written down later.

mod servers;

use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

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
    let (address, tables) = (shared(), tables());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    let over = quiet(&*front, "a").await;
    assert!(!other.front.survey("").await.unwrap().is_empty());
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await, (1, 1), "it was written down at once");
    assert_eq!(other.front.survey("").await.unwrap(), []);
    for side in [&front, &other.keeper] {
        assert_eq!(side.renew(from_ref(&over)).await.unwrap(), [Renewal::Gone]);
    }
    assert!(!other.front.evict(&over.name, &over.id.public()).await.unwrap());
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::NotThere);
}

#[tokio::test]
async fn what_is_given_back_in_memory_is_free_for_who_comes_next() {
    let (address, tables) = (shared(), tables());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    for (name, patience) in [("a", Patience::None), ("b", Patience::Waits), ("c", Patience::Barges)] {
        let (over, token) = granted(&*front, name).await;
        front.withdraw(&over).await.unwrap();
        let next = Claim { patience, ..claim(name) };
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
    let (address, tables) = (shared(), tables());
    let front = front(&address, &tables).await;
    let over = quiet(&*front, "a").await;
    let mut stopped = plain(&address).await;
    stopped.query_drop(format!("START TRANSACTION; SELECT 1 FROM {tables}_locks FOR UPDATE")).await.unwrap();
    let withdrawn = tokio::time::timeout(Duration::from_secs(2), front.withdraw(&over)).await;
    assert_eq!(withdrawn.expect("it waits for nobody").unwrap(), Withdrawal::Withdrawn);
}

#[tokio::test]
async fn the_next_claim_of_the_same_client_writes_it_down() {
    let (address, tables) = (shared(), tables());
    let front = front(&address, &tables).await;
    let (over, token) = granted(&*front, "a").await;
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    // The long way leads through the gate.
    let mut stopped = plain(&address).await;
    stopped.query_drop(format!("START TRANSACTION; SELECT 1 FROM {tables}_gates FOR UPDATE")).await.unwrap();
    let next = claim("a");
    let standing = tokio::time::timeout(Duration::from_secs(2), front.claim(&next)).await;
    assert_eq!(standing.expect("it waits for nobody").unwrap(), Standing::Granted { token: token + 1 });
}

/// Its release did not see yet that others came, and they did not see the release.
#[tokio::test]
async fn who_joined_just_before_a_lock_was_given_back_in_memory_gets_in() {
    let (address, tables) = (shared(), tables());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    let (over, waiter) = (quiet(&*front, "a").await, claim("a"));
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
    for name in ["a", "b", "c"] {
        let over = quiet(&*client.front, name).await;
        assert_eq!(client.front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    }
    eventually(LONG, "it is written down", async || stored(&address, &tables).await == (0, 0)).await;
    // Nothing of it is remembered that would do harm to others.
    let other = servers::client(&address, &tables).await;
    assert!(matches!(other.front.claim(&claim("a")).await.unwrap(), Standing::Granted { .. }));
    let impatient = Claim { patience: Patience::None, ..claim("a") };
    assert_eq!(client.front.claim(&impatient).await.unwrap(), Standing::Refused);
}

#[tokio::test]
async fn a_lock_that_is_not_there_is_not_given_back_in_memory() {
    let (address, tables) = (shared(), tables());
    let (front, other) = (front(&address, &tables).await, client(&address, &tables).await);
    let removed = quiet(&*front, "a").await;
    tell(&address, &format!("UPDATE {tables}_locks SET id = NULL")).await;
    assert_eq!(front.withdraw(&removed).await.unwrap(), Withdrawal::NotThere);
    // Others wait: it is written down at once.
    let (holder, waiter) = (quiet(&*front, "b").await, claim("b"));
    assert!(matches!(other.front.claim(&waiter).await.unwrap(), Standing::Queued { .. }));
    assert_eq!(front.withdraw(&holder).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await, (0, 0));
    assert!(matches!(other.front.claim(&waiter).await.unwrap(), Standing::Granted { .. }));
}

/// One client that takes and gives back as fast as it can, and others that come in between: whoever joins at the very
/// moment in which the lock is given back must not wait for the end of a lease.
#[tokio::test(flavor = "multi_thread")]
async fn who_joins_while_a_lock_is_given_back_in_memory_gets_in_soon() {
    let (address, tables) = (shared(), tables());
    let (is_held, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut working = JoinSet::new();
    for pause in [0, 0, 3, 7] {
        let hold = if pause == 7 { Hold::Lease } else { Hold::Session };
        let locks = Locks::new(session(&address, &tables).hold(hold)).await.unwrap();
        let (is_held, is_over) = (Arc::clone(&is_held), Arc::clone(&is_over));
        working.spawn(async move {
            let mut pairs = 0;
            while !is_over.load(Ordering::Acquire) {
                let begin = Clock::Boot.now();
                let guard = locks.mutex("a").ttl(Duration::from_secs(20)).wait(LONG).lock().await.unwrap();
                let waited = Clock::Boot.now().since(begin);
                assert!(waited < Duration::from_secs(5), "it waited for {waited:?}");
                assert!(!is_held.swap(true, Ordering::AcqRel), "two have it");
                is_held.store(false, Ordering::Release);
                guard.release().await.unwrap();
                pairs += 1;
                // Long enough for the others to find nobody else there.
                let rest = Duration::from_millis(if pairs % 8 == 0 { 5 + pause } else { pause });
                tokio::time::sleep(rest).await;
            }
            pairs
        });
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    is_over.store(true, Ordering::Release);
    let pairs = working.join_all().await;
    assert!(pairs.iter().all(|pairs| *pairs > 10), "{pairs:?}");
}

#[tokio::test]
async fn what_a_crash_of_the_server_forgets_is_free_when_its_lease_is_over() {
    let server = Server::start(&[]);
    let (address, tables) = (server.address(), tables());
    let over = {
        let front = front(&address, &tables).await;
        let first = quiet(&*front, "a").await;
        front.withdraw(&first).await.unwrap();
        let over = Claim { ttl: Duration::from_secs(5), ..claim("a") };
        front.claim(&over).await.unwrap();
        assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
        over
    };
    server.kill();
    server.restart();
    assert_eq!(stored(&address, &tables).await, (1, 0), "it was kept in memory");
    let (other, next) = (client(&address, &tables).await, Claim { patience: Patience::None, ..claim("a") });
    let begin = Clock::Boot.now();
    eventually(LONG, "its lease ends", async || {
        matches!(other.front.claim(&next).await.unwrap(), Standing::Granted { .. })
    })
    .await;
    assert!(Clock::Boot.now().since(begin) < over.ttl + Duration::from_secs(2));
}

#[tokio::test]
async fn a_server_without_room_for_it_writes_down_at_once() {
    let server = Server::start(&["--max-heap-table-size=16384"]);
    let (address, tables) = (server.address(), tables());
    let front = front(&address, &tables).await;
    let over = quiet(&*front, "a").await;
    let mut filler = plain(&address).await;
    let fill = format!("INSERT INTO {tables}_released SELECT UNHEX(MD5(RAND())), UTC_TIMESTAMP(6)");
    while filler.query_drop(&fill).await.is_ok() {}
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await.0, 0);
    let again = quiet(&*front, "a").await;
    assert_eq!(front.withdraw(&again).await.unwrap(), Withdrawal::Withdrawn);
}

#[tokio::test]
async fn nothing_is_kept_in_memory_where_others_are_told_of_every_change() {
    let server = Server::start(&["--log-bin=log", "--server-id=1", "--binlog-format=ROW"]);
    let (address, tables) = (server.address(), tables());
    let front = front(&address, &tables).await;
    let engine = "SELECT COUNT(*) FROM information_schema.TABLES WHERE ENGINE = 'MEMORY' AND TABLE_SCHEMA = DATABASE()";
    assert_eq!(number(&address, engine).await, 0);
    let over = quiet(&*front, "a").await;
    assert_eq!(front.withdraw(&over).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(stored(&address, &tables).await, (0, 0));
}

#[tokio::test]
async fn tables_of_version_2_are_brought_up_to_date() {
    let (address, tables) = (shared(), tables());
    let before = client(&address, &tables).await;
    let holder = claim("a");
    before.front.claim(&holder).await.unwrap();
    tell(&address, &format!("DROP TABLE {tables}_released")).await;
    tell(&address, &format!("UPDATE {tables}_schema SET version = 2")).await;
    let front = front(&address, &tables).await;
    let impatient = Claim { patience: Patience::None, ..claim("a") };
    assert_eq!(front.claim(&impatient).await.unwrap(), Standing::Refused);
    assert_eq!(before.front.withdraw(&holder).await.unwrap(), Withdrawal::Withdrawn);
    let over = quiet(&*front, "a").await;
    front.withdraw(&over).await.unwrap();
    assert_eq!(stored(&address, &tables).await, (1, 1));
}
