//! What the suite cannot see: what is stored, how tables come about, and whom the engine refuses.

mod servers;

use std::slice::from_ref;
use std::time::Duration;

use lockhouse_core::{
    Claim, Connector, Happened, Kind, Locks, Patience, Renewal, Side, Standing, Withdrawal, Write, Written,
};
use lockhouse_mysql::{Hold, Mysql};
use lockhouse_testkit::eventually;
use mysql_async::prelude::Queryable;
use servers::{Server, claim, client, number, plain, shared, tables, tell};
use tokio::task::JoinSet;

fn token(standing: Standing) -> u64 {
    match standing {
        Standing::Granted { token } => token,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn clients_that_start_together_create_the_tables_together() {
    let (address, tables) = (shared(), tables());
    let mut starting = JoinSet::new();
    for _ in 0..16 {
        let mysql = Mysql::at(&address).unwrap().tables(&tables).unwrap();
        starting.spawn(async move { mysql.connect(Side::Front).await.map(drop) });
    }
    for started in starting.join_all().await {
        started.unwrap();
    }
    assert_eq!(number(&address, &format!("SELECT version FROM {tables}_schema")).await, 3);
}

#[tokio::test]
async fn tables_that_must_not_be_created_are_asked_for() {
    let (address, tables) = (shared(), tables());
    let mysql = || Mysql::at(&address).unwrap().tables(&tables).unwrap();
    let error = mysql().create(false).connect(Side::Front).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_happened()), (Kind::Denied, Happened::No), "{error}");
    assert!(error.to_string().contains(&format!("{tables}_claims")), "{error}");
    // What the doctor prints creates them.
    let doctor = client(&address, &servers::tables()).await.front.checkup().await.unwrap();
    let made_by = doctor.facts.iter().find(|fact| fact.what == "tables are made by").expect("it is told").value.clone();
    let other = made_by.lines().find_map(|line| line.split('`').nth(1)).unwrap().trim_end_matches("_schema").to_owned();
    for statement in made_by.replace(&other, &tables).split(';').filter(|statement| !statement.trim().is_empty()) {
        tell(&address, statement).await;
    }
    let front = mysql().create(false).connect(Side::Front).await.unwrap();
    token(front.claim(&claim("a")).await.unwrap());
}

#[tokio::test]
async fn tables_of_a_newer_version_are_left_alone() {
    let (address, tables) = (shared(), tables());
    client(&address, &tables).await;
    tell(&address, &format!("UPDATE {tables}_schema SET version = 99")).await;
    let error = Mysql::at(&address).unwrap().tables(&tables).unwrap().connect(Side::Front).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}

#[tokio::test]
async fn a_lock_that_is_given_back_leaves_its_counter_alone() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    let (first, second) = (claim("a"), claim("a"));
    let before = token(client.front.claim(&first).await.unwrap());
    client.front.withdraw(&first).await.unwrap();
    assert_eq!(number(&address, &format!("SELECT COUNT(*) FROM {tables}_claims")).await, 0);
    assert_eq!(number(&address, &format!("SELECT newest FROM {tables}_locks")).await.cast_unsigned(), before);
    assert_eq!(token(client.front.claim(&second).await.unwrap()), before + 1);
}

#[tokio::test]
async fn a_claim_stands_in_the_row_of_its_lock_until_others_join_and_again_when_they_have_left() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    let in_row = async || number(&address, &format!("SELECT COUNT(id) FROM {tables}_locks WHERE NOT crowded")).await;
    let in_line = async || number(&address, &format!("SELECT COUNT(*) FROM {tables}_claims")).await;
    let (first, second) = (claim("a"), claim("a"));
    let granted = client.front.claim(&first).await.unwrap();
    let impatient = Claim { patience: Patience::None, ..claim("a") };
    assert_eq!(client.front.claim(&impatient).await.unwrap(), Standing::Refused);
    assert_eq!((in_row().await, in_line().await), (1, 0), "who is refused moves nobody");
    assert_eq!(client.front.claim(&second).await.unwrap(), Standing::Queued { ahead: 1 });
    assert_eq!((in_row().await, in_line().await), (0, 2));
    assert_eq!(client.keeper.renew(&[first.clone(), second.clone()]).await.unwrap(), [Renewal::Renewed; 2]);
    assert_eq!(client.front.claim(&first).await.unwrap(), granted, "it is what it was");
    for claim in [&first, &second] {
        assert_eq!(client.front.withdraw(claim).await.unwrap(), Withdrawal::Withdrawn);
    }
    let third = claim("a");
    assert!(token(client.front.claim(&third).await.unwrap()) > token(granted));
    assert_eq!((in_row().await, in_line().await), (1, 0));
    assert_eq!(client.front.withdraw(&third).await.unwrap(), Withdrawal::Withdrawn);
    assert_eq!(client.front.withdraw(&third).await.unwrap(), Withdrawal::NotThere);
    assert_eq!((in_row().await, in_line().await), (0, 0));
}

#[tokio::test]
async fn a_client_that_stops_in_the_middle_keeps_nobody_from_renewing_and_giving_back() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    let (alone, holder, waiter) = (claim("a"), claim("b"), claim("b"));
    token(client.front.claim(&alone).await.unwrap());
    token(client.front.claim(&holder).await.unwrap());
    client.front.claim(&waiter).await.unwrap();
    let mut stopped = plain(&address).await;
    let gates = format!("START TRANSACTION; SELECT 1 FROM {tables}_gates WHERE name IN ('a', 'b') FOR UPDATE");
    stopped.query_drop(gates).await.unwrap();
    let claims = [alone, holder, waiter];
    let renewals = tokio::time::timeout(Duration::from_secs(2), client.keeper.renew(&claims)).await;
    assert_eq!(renewals.expect("it waits for nobody").unwrap(), [Renewal::Renewed; 3]);
    for claim in &claims {
        let withdrawn = tokio::time::timeout(Duration::from_secs(2), client.front.withdraw(claim)).await;
        assert_eq!(withdrawn.expect("it waits for nobody").unwrap(), Withdrawal::Withdrawn);
    }
    token(client.front.claim(&claim("a")).await.unwrap());
}

#[tokio::test]
async fn a_lock_whose_row_somebody_deleted_still_has_its_line() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    let (holder, waiter) = (claim("a"), claim("a"));
    token(client.front.claim(&holder).await.unwrap());
    client.front.claim(&waiter).await.unwrap();
    tell(&address, &format!("DELETE FROM {tables}_locks")).await;
    assert_eq!(client.front.claim(&claim("a")).await.unwrap(), Standing::Queued { ahead: 2 });
}

#[tokio::test]
async fn a_waiter_that_was_evicted_without_knowing_that_it_waited_is_refused_when_everybody_else_has_left() {
    let (address, tables) = (shared(), tables());
    let (one, other) = (client(&address, &tables).await, client(&address, &tables).await);
    let (holder, waiter) = (claim("a"), claim("a"));
    token(one.front.claim(&holder).await.unwrap());
    one.front.claim(&waiter).await.unwrap();
    assert!(one.front.evict(&waiter.name, &waiter.id.public()).await.unwrap());
    one.front.withdraw(&holder).await.unwrap();
    let next = claim("a");
    token(one.front.claim(&next).await.unwrap());
    one.front.withdraw(&next).await.unwrap();
    // The other client is the same one after a lost answer: it knows nothing of its place in line.
    assert_eq!(other.front.claim(&waiter).await.unwrap(), Standing::Refused);
}

#[tokio::test]
async fn a_floor_raises_the_token_and_every_later_one() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    let a = claim("a");
    let floor = token(client.front.claim(&a).await.unwrap()) + 1_000;
    assert_eq!(token(client.front.claim(&Claim { floor, ..a.clone() }).await.unwrap()), floor);
    let waiter = Claim { floor: floor + 1_000, ..claim("a") };
    assert_eq!(client.front.claim(&waiter).await.unwrap(), Standing::Queued { ahead: 1 });
    client.front.withdraw(&a).await.unwrap();
    assert!(token(client.front.claim(&waiter).await.unwrap()) > floor + 1_000);
}

#[tokio::test]
async fn a_waiter_that_a_passer_by_let_in_is_told_its_token() {
    let (address, tables) = (shared(), tables());
    let (one, two) = (client(&address, &tables).await, client(&address, &tables).await);
    let (first, second) = (claim("a"), claim("a"));
    token(one.front.claim(&first).await.unwrap());
    assert_eq!(two.front.claim(&second).await.unwrap(), Standing::Queued { ahead: 1 });
    one.front.withdraw(&first).await.unwrap();
    assert_eq!(one.front.claim(&claim("a")).await.unwrap(), Standing::Queued { ahead: 1 });
    let told = two.front.moved(&second).await.unwrap().expect("the standing itself");
    assert_eq!(token(two.front.claim(&second).await.unwrap()), token(told));
}

#[tokio::test]
async fn names_are_bytes() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    for name in ["a", "A", "á", "a ", " a", "a\\", "a'; DROP TABLE x; --", "{name}", "ａ"] {
        token(client.front.claim(&claim(name)).await.unwrap());
    }
    let lines = client.front.survey("a").await.unwrap();
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["a", "a ", "a'; DROP TABLE x; --", "a\\"]);
}

#[tokio::test]
async fn cells_compare_all_64_bits_of_a_token_and_see_a_write_of_the_same_value() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    let name = claim("cell").name;
    let write = |id: u8, token| Write { id: [id; 16], value: vec![0, 255], if_version: None, token: Some(token) };
    let newest = u64::MAX - 1;
    assert_eq!(client.front.write(&name, &write(1, newest)).await.unwrap(), Written::Yes { version: 1 });
    assert_eq!(client.front.write(&name, &write(1, newest)).await.unwrap(), Written::Yes { version: 1 });
    assert_eq!(client.front.write(&name, &write(2, newest - 1)).await.unwrap(), Written::Stale { newest });
    assert_eq!(client.front.write(&name, &write(3, newest + 1)).await.unwrap(), Written::Yes { version: 2 });
    let at_version = Write { if_version: Some(7), token: None, ..write(4, 0) };
    assert_eq!(client.front.write(&name, &at_version).await.unwrap(), Written::Changed { version: 2 });
    let cell = client.front.read(&name).await.unwrap();
    assert_eq!((cell.version, cell.token, cell.value), (2, u64::MAX, vec![0, 255]));
}

#[tokio::test]
async fn a_renewal_of_many_leases_of_different_lengths_answers_each() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    let seconds = |at: u64| Duration::from_secs(10 + at % 3);
    let claims: Vec<Claim> = (0..600).map(|at| Claim { ttl: seconds(at), ..claim(&format!("{at}")) }).collect();
    for claim in &claims[1..] {
        token(client.front.claim(claim).await.unwrap());
    }
    let renewals = client.keeper.renew(&claims).await.unwrap();
    assert_eq!(renewals[0], Renewal::Gone);
    assert!(renewals[1..].iter().all(|renewal| *renewal == Renewal::Renewed));
    let expired = format!("UPDATE {tables}_locks SET lease_end = UTC_TIMESTAMP(6) WHERE name = '7'");
    tell(&address, &expired).await;
    assert_eq!(client.keeper.renew(from_ref(&claims[7])).await.unwrap(), [Renewal::Gone]);
}

#[tokio::test]
async fn a_holder_is_told_when_the_clock_is_set_forward() {
    let (address, tables) = (shared(), tables());
    let locks = Locks::new(Mysql::at(&address).unwrap().tables(&tables).unwrap()).await.unwrap();
    let ttl = Duration::from_secs(3);
    let guard = locks.mutex("a").ttl(ttl).lock().await.unwrap();
    // To the claims it is the same whether the clock is set forward or they are set back.
    tell(&address, &format!("UPDATE {tables}_locks SET lease_end = lease_end - INTERVAL 2 MINUTE")).await;
    let next = locks.mutex("a").ttl(ttl).lock().await.unwrap();
    assert!(next.token() > guard.token());
    tokio::time::timeout(ttl / 3 + Duration::from_secs(1), guard.lost()).await.expect("told by its next renewal");
}

#[tokio::test]
async fn what_nobody_asks_for_is_swept() {
    let (address, tables) = (shared(), tables());
    let client = client(&address, &tables).await;
    for name in ["over", "unused", "in use"] {
        token(client.front.claim(&claim(name)).await.unwrap());
        client.front.claim(&claim(name)).await.unwrap();
    }
    token(client.front.claim(&claim("sole")).await.unwrap());
    for statement in [
        format!("UPDATE {tables}_claims SET lease_end = UTC_TIMESTAMP(6) - INTERVAL 2 MINUTE WHERE name = 'over'"),
        format!("DELETE FROM {tables}_claims WHERE name = 'unused'"),
        format!("UPDATE {tables}_locks SET used = UTC_DATE() - INTERVAL 31 DAY WHERE name <> 'over'"),
        format!("INSERT INTO {tables}_released VALUES (x'01', UTC_TIMESTAMP(6)), (x'02', '2000-01-01')"),
    ] {
        tell(&address, &statement).await;
    }
    eventually(Duration::from_secs(60), "it is swept", async || {
        let claims = number(&address, &format!("SELECT COUNT(*) FROM {tables}_claims WHERE name = 'over'")).await;
        let locks = number(&address, &format!("SELECT COUNT(*) FROM {tables}_locks WHERE name = 'unused'")).await;
        let released = number(&address, &format!("SELECT COUNT(*) FROM {tables}_released")).await;
        (claims + locks, released) == (0, 1)
    })
    .await;
    let left = number(&address, &format!("SELECT COUNT(*) FROM {tables}_locks WHERE name <> 'unused'")).await;
    assert_eq!(left, 3, "a name that is used, or held for long, keeps its row");
}

/// Statements that are carried out alone, and often, are prepared.
#[tokio::test]
async fn a_server_that_prepares_no_more_statements_is_told_by_texts() {
    for (most, prepared) in [("--max-prepared-stmt-count=100", true), ("--max-prepared-stmt-count=0", false)] {
        let server = Server::start(&[most]);
        let address = server.address();
        let mut newest = 0;
        for hold in [Hold::Lease, Hold::Session, Hold::Row] {
            let locks = Locks::new(Mysql::at(&address).unwrap().hold(hold)).await.unwrap();
            for _ in 0..3 {
                let guard = locks.mutex("orders/42").lock().await.unwrap();
                assert!(guard.token() == newest + 1 || newest == 0, "{hold:?}: {} after {newest}", guard.token());
                newest = guard.token();
                assert!(locks.mutex("orders/42").try_lock().await.unwrap().is_none(), "{hold:?}");
                guard.release().await.unwrap();
            }
        }
        let executed = "SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS \
                        WHERE VARIABLE_NAME = 'COM_STMT_EXECUTE'";
        assert_eq!(number(&address, executed).await > 0, prepared, "{most}");
    }
}
