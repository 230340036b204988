//! Sixteen buyers, ten items, on a PostgreSQL server of the test's own.

use std::time::Duration;

use lockhouse_testkit::{Postgres, eventually};
use stock::{BUYERS, ITEMS, Way, rush, shelves};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

#[tokio::test]
async fn nothing_is_lost_and_nothing_oversold_but_by_the_naive_way() {
    let server = Postgres::start(&[]);
    let url = format!("postgres:{}", server.address());
    let (shelves, locks) = (shelves(&url).await.unwrap(), lockhouse::connect(&url).await.unwrap());
    for way in Way::ALL {
        let outcome = rush(&shelves, &locks, way, "teapot").await.unwrap();
        if way == Way::Naive {
            // All of them saw items on the shelf before the first one had written.
            assert!(outcome.sold > ITEMS && !outcome.is_exact(), "the naive way was lucky: {outcome:?}");
        } else {
            assert_eq!((outcome.sold, outcome.left), (ITEMS, 0), "{way:?}");
        }
    }
    let shelf = &shelves[0];
    assert!(shelf.write_fenced("teapot", 9, u64::from(u32::MAX)).await.unwrap());
    assert!(!shelf.write_fenced("teapot", 8, 1).await.unwrap(), "a holder that lost the lock is refused by its token");
}

/// A connection of somebody else's.
async fn plain(url: &str, drivers: &mut JoinSet<()>) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    drivers.spawn(async move { drop(connection.await) });
    client
}

#[tokio::test]
async fn all_buyers_write_at_the_same_time() {
    let server = Postgres::start(&[]);
    let url = format!("postgres:{}", server.address());
    let (shelves, mut drivers) = (shelves(&url).await.unwrap(), JoinSet::new());
    let (locker, looker) = (plain(&url, &mut drivers).await, plain(&url, &mut drivers).await);
    shelves[0].stock_up("teapot", ITEMS).await.unwrap();
    locker.batch_execute("BEGIN; SELECT FROM stock_items FOR UPDATE").await.unwrap();
    let mut writes = JoinSet::new();
    for shelf in shelves {
        writes.spawn(async move { shelf.write("teapot", 0).await.unwrap() });
    }
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    eventually(Duration::from_secs(30), "all of them wait for the row", async || {
        looker.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == i64::from(BUYERS)
    })
    .await;
    locker.batch_execute("COMMIT").await.unwrap();
    writes.join_all().await;
}
