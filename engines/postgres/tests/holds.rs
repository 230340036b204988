//! Locks that are held by connections: how they end, and what they cost.

mod servers;

use std::time::Duration;

use futures_util::future::join_all;
use lockhouse_core::{Clock, Kind, Locks};
use lockhouse_postgres::{Hold, Postgres};
use lockhouse_testkit::{Cut, Wire, eventually};
use servers::psql::Psql;
use servers::subject::postgres;
use servers::{Server, count, shared, table, tell, through};

const HOLDS: [Hold; 2] = [Hold::Session, Hold::Row];
const LONG: Duration = Duration::from_secs(30);

/// What a program that knows nothing of Lockhouse does to take the lock of this name.
fn foreign(hold: Hold, name: &str) -> String {
    match hold {
        Hold::Row => format!("BEGIN; SELECT FROM lockhouse_rows WHERE name = '{name}' FOR UPDATE"),
        _ => format!("SELECT pg_advisory_lock(lockhouse_key('{name}'))"),
    }
}

/// Waits until a statement of somebody else's waits for a lock.
async fn until_somebody_waits(address: &str) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'psql'";
    while tell(address, waiting).await[0] == "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// With the settings that everybody has.
async fn cut_silently(address: String, hold: Hold) {
    let name = format!("silent {hold:?}");
    let (wire, through) = through(&address);
    let locks = Locks::new(Postgres::at(&through).unwrap().hold(hold)).await.unwrap();
    let guard = locks.mutex(&name).lock().await.unwrap();
    let mut psql = Psql::at(&address);
    psql.begin(&foreign(hold, &name)).await;
    until_somebody_waits(&address).await;
    wire.cut(Cut::Silent);
    let cut = Clock::Boot.now();
    let told = async {
        guard.lost().await;
        Clock::Boot.now()
    };
    let freed = async {
        psql.done().await;
        Clock::Boot.now()
    };
    let (told, freed) = tokio::join!(told, freed);
    assert!(told < freed, "{hold:?}: told {:?} after somebody else was in", told.since(freed));
    assert!(freed.since(cut) < Duration::from_secs(25), "{hold:?}: free after {:?}", freed.since(cut));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_holder_is_cut_off_silently_is_free_within_25_s_and_its_holder_told_before() {
    let server = Server::start(&[]);
    let (session, row) = (cut_silently(server.address(), Hold::Session), cut_silently(server.address(), Hold::Row));
    tokio::join!(session, row);
}

/// The server can say that a lock was not had in time although it was granted in that moment, and the session has it.
/// Here it always does.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_granted_although_the_server_says_it_was_not_is_given_back() {
    let (address, table) = (shared(), table());
    let locks = Locks::new(postgres(&address, Hold::Session).table(&table).unwrap()).await.unwrap();
    let says_so = format!(
        "CREATE OR REPLACE FUNCTION {table}_key(the_name text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
             IF current_query() LIKE 'SELECT pg_advisory_lock(%' THEN
                 PERFORM pg_advisory_lock(hashtext(the_name));
                 RAISE lock_not_available;
             END IF;
             RETURN hashtext(the_name);
         END $$"
    );
    tell(&address, &says_so).await;
    let mut psql = Psql::at(&address);
    assert_eq!(psql.say(&format!("SELECT pg_try_advisory_lock({table}_key('{table}'))")).await, "t");
    let leaving = async {
        let waits = format!("pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{table}_key%'");
        eventually(LONG, "ours waits", async || count(&address, &waits).await > 0).await;
        psql.say("SELECT pg_advisory_unlock_all()").await;
    };
    let waiting = locks.mutex(&table).wait(LONG);
    let (guard, ()) = tokio::join!(waiting.lock(), leaving);
    guard.unwrap().release().await.unwrap();
    assert_eq!(psql.say(&format!("SELECT pg_try_advisory_lock({table}_key('{table}'))")).await, "t", "somebody has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_ended_costs_no_lock_unless_another_program_takes_it() {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'lockhouse holding%'";
    for hold in HOLDS {
        let server = Server::start(&[]);
        let address = server.address();
        let locks = Locks::new(postgres(&address, hold)).await.unwrap();
        let guard = locks.mutex("kept").ttl(Duration::from_secs(3)).lock().await.unwrap();
        tell(&address, end).await;
        let since = Clock::Boot.now();
        while Clock::Boot.now().since(since) < Duration::from_secs(4) {
            guard.check().unwrap_or_else(|error| panic!("{hold:?}: {error}"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut psql = Psql::at(&address);
        psql.begin(&foreign(hold, "kept")).await;
        until_somebody_waits(&address).await;
        tell(&address, end).await;
        psql.done().await;
        tokio::time::timeout(Duration::from_secs(4), guard.lost()).await.expect("told by its next renewal");
        assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_locks_are_held_by_one_session_and_a_waiter_holds_up_no_release() {
    let server = Server::start(&[]);
    let address = server.address();
    let locks = Locks::new(postgres(&address, Hold::Session)).await.unwrap();
    let names: Vec<String> = (0..200).map(|name| format!("{name}")).collect();
    let guards = join_all(names.iter().map(async |name| locks.mutex(name).lock().await.unwrap())).await;
    let mut psql = Psql::at(&address);
    psql.say("SELECT count(pg_advisory_lock(lockhouse_key('theirs ' || i))) FROM generate_series(1, 20) i").await;
    let mut waiters = tokio::task::JoinSet::new();
    for i in 1..=20 {
        let mutex = locks.mutex(format!("theirs {i}"));
        waiters.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let started = Clock::Boot.now();
    for guard in guards {
        guard.release().await.unwrap();
    }
    assert!(Clock::Boot.now().since(started) < Duration::from_secs(5), "releases wait for those who wait");
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'lockhouse%'";
    let connections: u32 = tell(&address, ours).await[0].parse().unwrap();
    assert!(connections <= 8, "{connections} connections");
    psql.say("SELECT pg_advisory_unlock_all()").await;
    while let Some(done) = tokio::time::timeout(LONG, waiters.join_next()).await.expect("everybody has a turn") {
        done.unwrap();
    }
    let left = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(tell(&address, left).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_rows_are_held_than_there_are_connections_for() {
    let locks = Locks::new(postgres(&shared(), Hold::Row).rows(2)).await.unwrap();
    let (one, two) = (locks.mutex("row 1").lock().await.unwrap(), locks.mutex("row 2").lock().await.unwrap());
    let error = locks.mutex("row 3").lock().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Full, "{error}");
    one.release().await.unwrap();
    locks.mutex("row 3").lock().await.unwrap().release().await.unwrap();
    two.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_may_not_lock_rows_is_told_so() {
    let server = Server::start(&[]);
    Locks::new(postgres(&server.address(), Hold::Row)).await.unwrap();
    let grant = "CREATE ROLE nobody LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON lockhouse_locks, lockhouse_claims, \
                 lockhouse_cells TO nobody; GRANT SELECT, UPDATE ON lockhouse_version TO nobody";
    tell(&server.address(), grant).await;
    let address = format!("//nobody@127.0.0.1:{}/postgres", server.port());
    let locks = Locks::new(postgres(&address, Hold::Row).create(false)).await.unwrap();
    let error = locks.mutex("x").ttl(Duration::from_secs(1)).try_lock().await.unwrap_err();
    assert!(format!("{error:#}").contains("permission denied for table lockhouse_rows"), "{error:#}");
}

/// Each client locks each of some names that nobody has used before, in an order of its own, and counts.
async fn new_names(hold: Hold) {
    const CLIENTS: usize = 32;
    let server = Server::start(&["max_connections=1000"]);
    let clients =
        join_all((0..CLIENTS).map(async |_| Locks::new(postgres(&server.address(), hold).rows(4)).await.unwrap()))
            .await;
    let counts: Vec<_> = (0..CLIENTS).map(|_| std::sync::Mutex::new((0, 0))).collect();
    join_all(clients.iter().enumerate().map(async |(me, locks)| {
        for turn in 0..CLIENTS {
            let name = (me * 7 + turn * 11) % CLIENTS;
            let guard = locks.mutex(format!("new {name}")).ttl(LONG).wait(LONG).lock().await.unwrap();
            // Nobody else is at it, or this would be wrong.
            let (count, newest) = *counts[name].lock().unwrap();
            assert!(guard.token() > newest, "{hold:?}: a token does not grow");
            tokio::task::yield_now().await;
            *counts[name].lock().unwrap() = (count + 1, guard.token());
            guard.release().await.unwrap();
        }
    }))
    .await;
    assert!(counts.iter().all(|count| count.lock().unwrap().0 == CLIENTS), "{hold:?}: an update was lost");
    let deadlocks = tell(&server.address(), "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'").await;
    assert_eq!(deadlocks, ["0"], "{hold:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_two_clients_on_thirty_two_new_names_lose_nothing_and_never_deadlock() {
    for hold in [Hold::Lease, Hold::Session, Hold::Row] {
        new_names(hold).await;
    }
}
