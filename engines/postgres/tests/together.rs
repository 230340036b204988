//! Locks that nobody else seems to want: the turn and the bolt are taken together, and given back together.

mod servers;

use std::time::Duration;

use lockhouse_core::{Locks, Release};
use lockhouse_postgres::{Hold, Postgres};
use lockhouse_testkit::eventually;
use servers::psql::Psql;
use servers::subject::postgres;
use servers::{count, shared, table, tell};
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(30);

/// Whether no connection has the advisory lock of a name.
async fn is_open(address: &str, name: &str) -> bool {
    let key = "(classid::bigint << 32) | objid::bigint";
    let shut = format!("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND {key} = lockhouse_key('{name}')");
    tell(address, &shut).await[0] == "0"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bolt_that_was_shut_in_advance_is_opened_by_who_has_to_wait() {
    let (address, name) = (shared(), format!("advance-{:08x}", rand::random::<u32>()));
    let locks = async |hold| Locks::new(Postgres::at(&address).unwrap().hold(hold)).await.unwrap();
    let (ours, other) = (locks(Hold::Session).await, locks(Hold::Lease).await);
    // A lock that nobody else seems to want.
    for _ in 0..3 {
        ours.mutex(&name).lock().await.unwrap().release().await.unwrap();
    }
    // It is held by a lease now, which shuts nothing.
    let guard = other.mutex(&name).lock().await.unwrap();
    assert!(is_open(&address, &name).await, "shut by nobody");
    let mutex = ours.mutex(&name).wait(LONG);
    let mut waiting = std::pin::pin!(mutex.lock());
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut waiting).await.is_err(), "in beside a lease");
    assert!(is_open(&address, &name).await, "shut by a claim that waits");
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap();
    assert!(!is_open(&address, &name).await, "held, and not shut");
    guard.release().await.unwrap();
    assert!(is_open(&address, &name).await, "given back, and still shut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_has_to_wait_for_a_row_holds_up_no_other() {
    let (address, run) = (shared(), rand::random::<u32>());
    let names = ["one", "other"].map(|name| format!("{name}-{run:08x}"));
    let locks = Locks::new(Postgres::at(&address).unwrap().hold(Hold::Session)).await.unwrap();
    let mut guards = Vec::new();
    for name in &names {
        // A lock that nobody else seems to want: its release is one request, by the connection that holds both.
        locks.mutex(name).lock().await.unwrap().release().await.unwrap();
        guards.push(locks.mutex(name).lock().await.unwrap());
    }
    let [one, other] = guards.try_into().unwrap();
    let mut psql = Psql::at(&address);
    psql.say(&format!("BEGIN; SELECT FROM lockhouse_locks WHERE name = '{}' FOR UPDATE", names[0])).await;
    let mut held_up = JoinSet::new();
    held_up.spawn(one.release());
    eventually(LONG, "the first is open", async || is_open(&address, &names[0]).await).await;
    let released = tokio::time::timeout(Duration::from_secs(1), other.release()).await;
    assert_eq!(released.expect("nothing waits where it is held").unwrap(), Release::Freed);
    assert!(held_up.try_join_next().is_none(), "somebody has its row");
    psql.say("ROLLBACK").await;
    let released = tokio::time::timeout(LONG, held_up.join_next()).await.expect("the row is free");
    assert_eq!(released.unwrap().unwrap().unwrap(), Release::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bolt_is_open_although_its_claim_could_not_leave_the_line() {
    let (address, table) = (shared(), table());
    let locks = Locks::new(postgres(&address, Hold::Session).table(&table).unwrap()).await.unwrap();
    locks.mutex(&table).lock().await.unwrap().release().await.unwrap();
    let guard = locks.mutex(&table).lock().await.unwrap();
    // Nothing is given back any more.
    let full = format!(
        "CREATE FUNCTION {table}_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$;
         CREATE TRIGGER refuse BEFORE UPDATE OF id ON {table}_locks FOR EACH ROW EXECUTE FUNCTION {table}_full()"
    );
    tell(&address, &full).await;
    guard.release().await.unwrap_err();
    let mut psql = Psql::at(&address);
    assert_eq!(psql.say(&format!("SELECT pg_try_advisory_lock({table}_key('{table}'))")).await, "t", "somebody has it");
}

/// A client with tables of its own.
async fn client(address: &str, table: &str) -> Locks {
    Locks::new(postgres(address, Hold::Session).table(table).unwrap()).await.unwrap()
}

/// Connections that hold locks, and those that do not, of which this is true and whose last statement was about these
/// tables.
async fn connections(address: &str, table: &str, which: &str) -> (u64, u64) {
    let those = format!("pg_stat_activity WHERE query LIKE '%{table}_%' AND pid <> pg_backend_pid() AND {which}");
    let holding = "application_name LIKE 'lockhouse holding %'";
    let others = "application_name NOT LIKE 'lockhouse holding %' AND application_name <> 'psql'";
    (count(address, &format!("{those} AND {holding}")).await, count(address, &format!("{those} AND {others}")).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_and_the_bolt_are_had_by_one_request_unless_something_else_is_held_by_the_connection() {
    let (address, table) = (shared(), table());
    let locks = client(&address, &table).await;
    let by_one = async || connections(&address, &table, "query LIKE '%pg_try_advisory_lock%UPDATE%'").await == (1, 0);
    // A key is that of its name, whatever the tables are called.
    let (x, y) = (format!("{table}-x"), format!("{table}-y"));
    for name in [&x, &y] {
        locks.mutex(name).lock().await.unwrap().release().await.unwrap();
    }
    // The connection is tried now and then, and then that was its last statement.
    eventually(LONG, "one request for both", async || {
        let guard = locks.mutex(&x).lock().await.unwrap();
        let by_one = by_one().await;
        guard.release().await.unwrap();
        by_one
    })
    .await;
    let _held = locks.mutex(&x).lock().await.unwrap();
    for _ in 0..5 {
        let guard = locks.mutex(&y).lock().await.unwrap();
        assert!(!by_one().await, "a request that waits for the disk would hold up what is held");
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_has_to_wait_for_a_row_waits_where_nothing_is_held() {
    let (address, table) = (shared(), table());
    let locks = client(&address, &table).await;
    locks.mutex(&table).lock().await.unwrap().release().await.unwrap();
    let mut psql = Psql::at(&address);
    psql.say(&format!("BEGIN; SELECT FROM {table}_locks WHERE name = '{table}' FOR UPDATE")).await;
    let mut waiting = JoinSet::new();
    let mutex = locks.mutex(&table);
    waiting.spawn(async move { mutex.lock().await });
    eventually(LONG, "it waits for the row", async || {
        let (holding, other) = connections(&address, &table, "wait_event_type = 'Lock'").await;
        assert_eq!(holding, 0, "nothing may wait where locks are held");
        other > 0
    })
    .await;
    psql.say("ROLLBACK").await;
    let guard = tokio::time::timeout(LONG, waiting.join_next()).await.expect("the row is free");
    assert_eq!(guard.unwrap().unwrap().unwrap().release().await.unwrap(), Release::Freed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_had_by_two_requests_when_one_fails_and_nothing_stays_shut() {
    let (address, table) = (shared(), table());
    let locks = client(&address, &table).await;
    locks.mutex(&table).lock().await.unwrap().release().await.unwrap();
    // It fails with the bolt shut.
    let fails = format!(
        "CREATE FUNCTION {table}_fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF current_setting('application_name') LIKE 'lockhouse holding %' THEN RAISE disk_full; END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER fails BEFORE UPDATE OF id ON {table}_locks FOR EACH ROW EXECUTE FUNCTION {table}_fails()"
    );
    tell(&address, &fails).await;
    let guard = tokio::time::timeout(LONG, locks.mutex(&table).lock()).await.expect("by two requests").unwrap();
    guard.check().unwrap();
    let mut psql = Psql::at(&address);
    let free = format!("SELECT pg_try_advisory_lock({table}_key('{table}'))");
    assert_eq!(psql.say(&free).await, "f", "held, and not shut");
    assert_eq!(guard.release().await.unwrap(), Release::Freed);
    assert_eq!(psql.say(&free).await, "t", "given back, and still shut");
}
