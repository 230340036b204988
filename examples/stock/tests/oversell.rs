//! Sixteen buyers, ten items, on a MariaDB server of the test's own.

use lockhouse_testkit::MariaDb as Server;
use stock::{BUYERS, ITEMS, MariaDb, Shelf, Way, rush, shelves};

fn url(server: &Server) -> String {
    format!("mysql:{}", server.address())
}

#[tokio::test]
async fn nothing_is_lost_and_nothing_oversold_but_by_the_naive_way() {
    let server = Server::start(&[]);
    let shelves = shelves(&url(&server)).await.unwrap();
    let locks = lockhouse::connect(&url(&server)).await.unwrap();
    for way in Way::ALL {
        let outcome = rush(&shelves, &locks, way, "teapot").await.unwrap();
        if way == Way::Naive {
            // All of them saw items on the shelf before the first one had written.
            assert!(outcome.sold > ITEMS, "the naive way was lucky: {outcome:?}");
            assert!(!outcome.is_exact(), "{outcome:?}");
        } else {
            assert!(outcome.is_exact(), "{way:?}: {outcome:?}");
            assert_eq!((outcome.sold, outcome.left), (ITEMS, 0), "{way:?}");
        }
    }
    assert!(i64::from(BUYERS) > ITEMS, "there is something to compete for");
}

#[tokio::test]
async fn a_holder_that_lost_the_lock_is_refused_by_its_token() {
    let server = Server::start(&[]);
    let shelf = MariaDb::connect(&url(&server)).await.unwrap();
    shelf.stock_up("teapot", ITEMS).await.unwrap();
    let (older, newer) = (41, 42);
    assert!(shelf.write_fenced("teapot", 9, older).await.unwrap());
    assert!(shelf.write_fenced("teapot", 8, newer).await.unwrap());
    assert!(!shelf.write_fenced("teapot", 9, older).await.unwrap(), "somebody else has the lock by now");
    assert_eq!(shelf.look("teapot").await.unwrap().quantity, 8);
}
