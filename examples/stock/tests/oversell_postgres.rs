//! Sixteen buyers, ten items, on a PostgreSQL server of the test's own.

use std::sync::Arc;

use lockhouse_testkit::Postgres;
use stock::{ITEMS, Way, rush, shelf};

#[tokio::test]
async fn nothing_is_lost_and_nothing_oversold_but_by_the_naive_way() {
    let server = Postgres::start(&[]);
    let url = format!("postgres:{}", server.address());
    let (shelf, locks) = (shelf(&url).await.unwrap(), lockhouse::connect(&url).await.unwrap());
    for way in Way::ALL {
        let outcome = rush(Arc::clone(&shelf), &locks, way, "teapot").await.unwrap();
        if way == Way::Naive {
            // All of them saw items on the shelf before the first one had written.
            assert!(outcome.sold > ITEMS && !outcome.is_exact(), "the naive way was lucky: {outcome:?}");
        } else {
            assert_eq!((outcome.sold, outcome.left), (ITEMS, 0), "{way:?}");
        }
    }
    assert!(shelf.write_fenced("teapot", 9, u64::from(u32::MAX)).await.unwrap());
    assert!(!shelf.write_fenced("teapot", 8, 1).await.unwrap(), "a holder that lost the lock is refused by its token");
}
