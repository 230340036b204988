//! Tables of an older version, and those who still use them while they are changed.

mod servers;

use std::time::Duration;

use lockhouse_core::{Connector, Kind, Renewal, Side, Standing, Withdrawal};
use lockhouse_postgres::Postgres;
use lockhouse_testkit::{Sides, claim, eventually};
use servers::psql::Psql;
use servers::{client, count, id, shared, table, tell, token, try_tell};
use tokio::task::JoinSet;

/// The tables of version 2, and one of its functions.
fn version_2(table: &str) -> String {
    let tables = [include_str!("../src/sql/schema/tables.sql"), include_str!("../src/sql/schema/rows.sql")].concat();
    let rest =
        "CREATE FUNCTION lockhouse_withdraw(the_name text, the_id bytea, OUT was_there boolean, OUT micros bigint)
                LANGUAGE sql AS 'SELECT false, 0::bigint';
                UPDATE lockhouse_version SET version = 2;";
    (tables + rest).replace("lockhouse_", &format!("{table}_"))
}

#[tokio::test]
async fn a_lock_and_its_line_outlive_the_change_to_a_newer_version() {
    let (address, table) = (shared(), table());
    tell(&address, &version_2(&table)).await;
    let (holder, waiter, late) = (claim("a"), claim("a"), claim("a"));
    let rest = "clock_timestamp() + interval '10 s', clock_timestamp(), false, false, 'nobody', 'tester', NULL";
    let before = format!(
        "INSERT INTO {table}_locks VALUES ('a', 7, clock_timestamp());
         INSERT INTO {table}_claims VALUES ('a', 0, {}, 1, 1, 0, 0, 6, {rest}), ('a', 1, {}, 1, 1, 0, 7, NULL, {rest})",
        id(&holder),
        id(&waiter)
    );
    tell(&address, &before).await;
    let client = client(&address, &table).await;
    assert_eq!(client.front.claim(&late).await.unwrap(), Standing::Queued { ahead: 2 });
    let claims = [holder.clone(), waiter.clone(), late.clone()];
    assert_eq!(client.keeper.renew(&claims).await.unwrap(), [Renewal::Renewed; 3]);
    let mut newest = token(client.front.claim(&holder).await.unwrap());
    assert_eq!(newest, 6);
    for (gone, next) in [(&holder, &waiter), (&waiter, &late)] {
        assert_eq!(client.front.withdraw(gone).await.unwrap(), Withdrawal::Withdrawn);
        let granted = token(client.front.claim(next).await.unwrap());
        assert!(granted > newest, "{granted} after {newest}");
        newest = granted;
    }
    // The next one finds nobody, and stands in the lock's row.
    assert_eq!(client.front.withdraw(&late).await.unwrap(), Withdrawal::Withdrawn);
    assert!(token(client.front.claim(&claim("a")).await.unwrap()) > newest);
    assert_eq!(count(&address, &format!("{table}_locks WHERE id IS NOT NULL AND NOT crowded")).await, 1);
}

/// Somebody who may changes them by hand, as `psql` does it: one statement after the other, whatever becomes of each.
#[tokio::test]
async fn tables_of_any_version_are_changed_by_what_the_doctor_prints() {
    let address = shared();
    for older in [true, false] {
        let table = table();
        let postgres = Postgres::at(&address).unwrap().table(&table).unwrap().create(false);
        if older {
            tell(&address, &version_2(&table)).await;
        }
        assert_eq!(postgres.connect(Side::Keeper).await.unwrap_err().kind(), Kind::Denied);
        // Once more changes nothing.
        for _ in 0..2 {
            assert_eq!(Psql::at(&address).say(&postgres.ddl()).await, "", "it says nothing");
            assert_eq!(tell(&address, &format!("SELECT version FROM {table}_version")).await, ["3"]);
            let checks = format!("pg_constraint WHERE conrelid = '{table}_locks'::regclass AND contype = 'c'");
            assert_eq!(count(&address, &checks).await, 2);
            let indexes = format!("pg_index WHERE indrelid = '{table}_claims'::regclass");
            assert_eq!(count(&address, &indexes).await, 2);
        }
        let client = Sides::of(&postgres).await;
        let (first, second) = (claim("a"), claim("a"));
        token(client.front.claim(&first).await.unwrap());
        assert_eq!(client.front.claim(&second).await.unwrap(), Standing::Queued { ahead: 1 });
        assert_eq!(client.front.withdraw(&first).await.unwrap(), Withdrawal::Withdrawn);
        token(client.front.claim(&second).await.unwrap());
    }
}

/// Whoever waits for a table has all others wait behind it.
#[tokio::test]
async fn a_change_to_a_newer_version_does_not_wait_long_for_who_reads_a_table() {
    let (address, table) = (shared(), table());
    tell(&address, &version_2(&table)).await;
    let read = format!("BEGIN; SELECT count(*) FROM {table}_locks; SELECT pg_sleep(6); COMMIT");
    let (mut reading, there) = (JoinSet::new(), address.clone());
    reading.spawn(async move { tell(&there, &read).await });
    let reads = "pg_stat_activity WHERE query LIKE '%pg_sleep(6)%' AND pid <> pg_backend_pid()";
    eventually(Duration::from_secs(4), "somebody reads", async || count(&address, reads).await > 0).await;
    let postgres = Postgres::at(&address).unwrap().table(&table).unwrap();
    postgres.connect(Side::Keeper).await.unwrap_err();
    assert_eq!(count(&address, &format!("{table}_locks")).await, 0);
    assert!(reading.try_join_next().is_none(), "it waited");
    reading.join_all().await;
    postgres.connect(Side::Keeper).await.unwrap();
}

#[tokio::test]
async fn who_does_not_know_of_claims_in_rows_gives_out_no_number_beside_them() {
    let (address, table) = (shared(), table());
    let client = client(&address, &table).await;
    let (first, second) = (claim("a"), claim("a"));
    let counts = format!("UPDATE {table}_locks SET counter = counter + 1 WHERE name = 'a'");
    client.front.claim(&first).await.unwrap();
    try_tell(&address, &counts).await.unwrap_err();
    client.front.withdraw(&first).await.unwrap();
    try_tell(&address, &counts).await.unwrap_err();
    // Where the row says that there is a line, it is the line that counts.
    client.front.claim(&first).await.unwrap();
    client.front.claim(&second).await.unwrap();
    try_tell(&address, &counts).await.unwrap();
}
