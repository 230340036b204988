//! What the suite cannot see: what is stored, who creates it, and how many connections it takes.

mod servers;

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select};
use lockhouse_core::{
    Checkup, Claim, Connector, Kind, Locks, Patience, Renewal, Side, Standing, Withdrawal, Write, Written,
};
use lockhouse_postgres::{Hold, Postgres};
use lockhouse_testkit::{claim, eventually};
use servers::{Server, client, count, id, shared, table, tell, token};

/// Claims that stand in their lock's row.
const IN_ROWS: &str = "lockhouse_locks WHERE id IS NOT NULL";

#[tokio::test]
async fn a_claim_that_nobody_is_beside_stands_in_its_locks_row_which_stays() {
    let (address, table) = (shared(), table());
    let client = client(&address, &table).await;
    let standing = format!("{table}_locks WHERE id IS NOT NULL");
    for round in 1..4 {
        let a = claim("a");
        assert_eq!(token(client.front.claim(&a).await.unwrap()), round);
        assert_eq!(count(&address, &standing).await, 1);
        assert_eq!(client.front.withdraw(&a).await.unwrap(), Withdrawal::Withdrawn);
        assert_eq!(count(&address, &standing).await, 0);
        assert_eq!(count(&address, &format!("{table}_locks")).await, 1);
        assert_eq!(count(&address, &format!("{table}_claims")).await, 0);
    }
    // Who only asks leaves nothing.
    assert_eq!(client.front.withdraw(&claim("b")).await.unwrap(), Withdrawal::NotThere);
    assert_eq!(count(&address, &format!("{table}_locks")).await, 1);
}

#[tokio::test]
async fn a_grant_is_pushed_with_its_token_and_nobody_has_to_ask() {
    let (address, table) = (shared(), table());
    let (one, two) = (client(&address, &table).await, client(&address, &table).await);
    let (first, second) = (claim("a"), claim("a"));
    let before = token(one.front.claim(&first).await.unwrap());
    assert_eq!(two.front.claim(&second).await.unwrap(), Standing::Queued { ahead: 1 });
    // Nobody listened when it was queued, so it should ask once more.
    assert_eq!(two.front.moved(&second).await.unwrap(), None);
    assert_eq!(two.front.claim(&second).await.unwrap(), Standing::Queued { ahead: 1 });
    let (moved, _) = tokio::join!(two.front.moved(&second), one.front.withdraw(&first));
    let pushed = token(moved.unwrap().expect("the standing itself"));
    assert!(pushed > before);
    assert_eq!(token(two.front.claim(&second).await.unwrap()), pushed);
}

#[tokio::test]
async fn a_floor_raises_the_token_and_every_later_one() {
    let client = client(&shared(), &table()).await;
    for capacity in [1, 2] {
        let a = Claim { capacity, ..claim("a") };
        let floor = token(client.front.claim(&a).await.unwrap()) + 1_000;
        assert_eq!(token(client.front.claim(&Claim { floor, ..a.clone() }).await.unwrap()), floor);
        client.front.withdraw(&a).await.unwrap();
        let next = Claim { capacity, ..claim("a") };
        assert!(token(client.front.claim(&next).await.unwrap()) > floor);
        client.front.withdraw(&next).await.unwrap();
    }
}

#[tokio::test]
async fn tokens_grow_across_a_lock_that_was_forgotten() {
    let (address, table) = (shared(), table());
    let client = client(&address, &table).await;
    let mut newest = 0;
    for _ in 0..3 {
        let a = Claim { floor: newest + 10, ..claim("a") };
        newest = token(client.front.claim(&a).await.unwrap());
        // A lock that is in use is not forgotten, however old.
        let forget = format!("UPDATE {table}_locks SET used = used - interval '2 days'; SELECT {table}_forget()");
        tell(&address, &forget).await;
        assert_eq!(count(&address, &format!("{table}_locks")).await, 1);
        client.front.withdraw(&a).await.unwrap();
        tell(&address, &forget).await;
        assert_eq!(count(&address, &format!("{table}_locks")).await, 0);
        let b = claim("a");
        let next = token(client.front.claim(&b).await.unwrap());
        assert!(next > newest, "{next} after {newest}");
        newest = next;
        client.front.withdraw(&b).await.unwrap();
    }
}

#[tokio::test]
async fn a_claim_that_somebody_has_locked_does_not_hold_up_the_renewal_of_others() {
    let (address, table) = (shared(), table());
    let client = client(&address, &table).await;
    let claims = [claim("a"), claim("b"), claim("c")];
    for claim in &claims {
        token(client.front.claim(claim).await.unwrap());
    }
    // Somebody looks at a row in a transaction of theirs, for two seconds.
    let look = format!("BEGIN; SELECT pg_sleep(2) FROM (SELECT FROM {table}_locks WHERE name = 'b' FOR UPDATE) x");
    let renew = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.keeper.renew(&claims).await.unwrap()
    };
    let (renewed, _) = tokio::join!(renew, tell(&address, &look));
    assert_eq!(renewed, [Renewal::Renewed, Renewal::Unknown, Renewal::Renewed]);
    assert_eq!(client.keeper.renew(&claims).await.unwrap(), [Renewal::Renewed; 3]);
}

#[tokio::test]
async fn everybody_may_be_the_first_to_create_the_tables() {
    let address = shared();
    for _ in 0..3 {
        let table = table();
        let clients = join_all((0..16).map(|_| client(&address, &table))).await;
        let a = claim("a");
        assert_eq!(token(clients[0].front.claim(&a).await.unwrap()), 1);
        assert_eq!(count(&address, &format!("{table}_version")).await, 1);
    }
}

#[tokio::test]
async fn what_may_not_be_created_is_refused_until_somebody_else_does_it() {
    let (address, table) = (shared(), table());
    let postgres = Postgres::at(&address).unwrap().table(&table).unwrap().create(false);
    let error = postgres.connect(Side::Keeper).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied);
    assert!(error.to_string().contains(&format!("the tables public.{table}_")), "{error}");
    tell(&address, &postgres.ddl()).await;
    let front = postgres.connect(Side::Front).await.unwrap();
    assert_eq!(token(front.claim(&claim("a")).await.unwrap()), 1);
    // And what a newer version made is left alone.
    tell(&address, &format!("UPDATE {table}_version SET version = 99")).await;
    assert_eq!(postgres.connect(Side::Front).await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn a_claim_in_its_locks_row_moves_into_the_line_when_others_come_and_not_for_who_does_not_wait() {
    let (address, table) = (shared(), table());
    let client = client(&address, &table).await;
    let (first, second) = (claim("a"), claim("a"));
    let tries = Claim { patience: Patience::None, ..claim("a") };
    let granted = token(client.front.claim(&first).await.unwrap());
    let standing = format!("{table}_locks WHERE id IS NOT NULL AND NOT crowded");
    assert_eq!(client.front.claim(&tries).await.unwrap(), Standing::Refused);
    let other = Claim { capacity: 2, ..tries.clone() };
    assert_eq!(client.front.claim(&other).await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(count(&address, &standing).await, 1);
    assert_eq!(client.front.claim(&second).await.unwrap(), Standing::Queued { ahead: 1 });
    assert_eq!(count(&address, &standing).await, 0);
    assert_eq!(count(&address, &format!("{table}_claims WHERE token = {granted} OR state = 1")).await, 2);
    assert_eq!(client.keeper.renew(&[first.clone(), second]).await.unwrap(), [Renewal::Renewed; 2]);
    assert_eq!(token(client.front.claim(&first).await.unwrap()), granted);
    assert_eq!(client.front.withdraw(&first).await.unwrap(), Withdrawal::Withdrawn);
}

#[tokio::test]
async fn a_withdrawal_takes_out_a_claim_whose_request_is_still_under_way() {
    let (address, table) = (shared(), table());
    let client = client(&address, &table).await;
    let (before, a) = (claim("a"), claim("a"));
    token(client.front.claim(&before).await.unwrap());
    client.front.withdraw(&before).await.unwrap();
    let id = id(&a);
    let slow = format!(
        "BEGIN; SELECT {table}_claim('a', {id}, 1, 1, 0, 1::smallint, 10000000, 0, false, 'nobody', 'tester', NULL);
         SELECT pg_sleep(1); COMMIT"
    );
    let withdraw = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.front.withdraw(&a).await.unwrap()
    };
    let (withdrawal, _) = tokio::join!(withdraw, tell(&address, &slow));
    assert_eq!(withdrawal, Withdrawal::Withdrawn);
    assert_eq!(count(&address, &format!("{table}_locks WHERE id IS NOT NULL")).await, 0);
}

#[tokio::test]
async fn a_dropped_request_leaves_no_transaction_open() {
    let (server, name) = (Server::start(&[]), "a");
    let address = server.address();
    let client = client(&address, "lockhouse").await;
    let claims: Vec<Claim> = (0..200).map(|_| claim(name)).collect();
    for (micros, a) in (0..).zip(&claims) {
        let late = Box::pin(tokio::time::sleep(Duration::from_micros(micros * 10)));
        drop(select(Box::pin(client.front.claim(a)), late).await);
        let late = Box::pin(tokio::time::sleep(Duration::from_micros(micros * 10)));
        drop(select(Box::pin(client.front.withdraw(a)), late).await);
        client.front.withdraw(a).await.unwrap();
    }
    // What was dropped may have been carried out after the withdrawal.
    eventually(Duration::from_secs(10), "everything is out", async || {
        for a in &claims {
            client.front.withdraw(a).await.unwrap();
        }
        count(&address, "lockhouse_claims").await == 0 && count(&address, IN_ROWS).await == 0
    })
    .await;
    let open = "pg_stat_activity WHERE application_name = 'lockhouse' AND state LIKE 'idle in transaction%'";
    assert_eq!(count(&address, open).await, 0);
    let a = claim(name);
    token(client.front.claim(&a).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiters_need_no_more_than_eight_connections() {
    for hold in [Hold::Lease, Hold::Session] {
        a_thousand_waiters(hold).await;
    }
}

async fn a_thousand_waiters(hold: Hold) {
    let server = Server::start(&[]);
    let address = server.address();
    let locks = Arc::new(Locks::new(Postgres::at(&address).unwrap().hold(hold)).await.unwrap());
    let lock = |locks: &Locks| locks.mutex("x").ttl(Duration::from_secs(30));
    let held = lock(&locks).lock().await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let mutex = lock(&locks);
        waiters.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
    }
    while count(&address, "lockhouse_claims WHERE state = 1").await < 1000 {
        assert!(waiters.try_join_next().is_none(), "a waiter gave up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    held.release().await.unwrap();
    let ours = "pg_stat_activity WHERE application_name LIKE 'lockhouse%'";
    let mut most = 0;
    while !waiters.is_empty() {
        most = most.max(count(&address, ours).await);
        while let Some(done) = waiters.try_join_next() {
            done.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!((3..=8).contains(&most), "{hold:?}: {most} connections");
    assert_eq!(count(&address, "lockhouse_claims").await, 0);
    assert_eq!(count(&address, IN_ROWS).await, 0);
}

#[tokio::test]
async fn an_account_without_rights_and_a_wrong_database_are_told_apart() {
    let server = Server::start(&[]);
    server_tell(&server, "CREATE ROLE nobody LOGIN").await;
    let at = |user: &str, database: &str| format!("//{user}@127.0.0.1:{}/{database}", server.port());
    let error = Locks::new(Postgres::at(&at("nobody", "postgres")).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    let error = Locks::new(Postgres::at(&at("postgres", "nothing")).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    // With tables that somebody else made, the rights that the README lists are enough.
    client(&server.address(), "lockhouse").await;
    server_tell(
        &server,
        "GRANT SELECT, INSERT, UPDATE, DELETE ON lockhouse_locks, lockhouse_claims, lockhouse_cells TO nobody;
         GRANT SELECT, UPDATE ON lockhouse_version TO nobody",
    )
    .await;
    let postgres = Postgres::at(&at("nobody", "postgres")).unwrap().create(false);
    let front = postgres.connect(Side::Front).await.unwrap();
    let a = claim("a");
    token(front.claim(&a).await.unwrap());
    assert_eq!(front.renew(from_ref(&a)).await.unwrap(), [Renewal::Renewed]);
    let write = Write { id: [1; 16], value: vec![7], if_version: Some(0), token: Some(1) };
    assert_eq!(front.write(&a.name, &write).await.unwrap(), Written::Yes { version: 1 });
    let checkup = front.checkup().await.unwrap();
    assert!(checkup.facts.iter().any(|fact| fact.what == "version"), "{checkup:?}");
    assert!(checkup.findings.iter().any(|finding| finding.what.contains("fsync")), "{checkup:?}");
    let rights = |checkup: &Checkup| checkup.facts.iter().find(|fact| fact.what == "rights").unwrap().value.clone();
    assert_eq!(rights(&checkup), "all that locks need; may not create tables in the schema");
    server_tell(&server, "REVOKE DELETE ON lockhouse_cells FROM nobody").await;
    let checkup = front.checkup().await.unwrap();
    assert!(
        checkup.findings.iter().any(|found| found.what.contains("DELETE on public.lockhouse_cells")),
        "{checkup:?}"
    );
    assert_eq!(front.withdraw(&a).await.unwrap(), Withdrawal::Withdrawn);
}

async fn server_tell(server: &Server, statements: &str) {
    tell(&server.address(), statements).await;
}
