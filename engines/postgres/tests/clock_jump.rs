//! Somebody sets the server's clock, forward and back by two minutes: the holder is told, and locks work afterwards.

use lockhouse_postgres::Postgres;
use lockhouse_testkit::{Postgres as Server, ServerClock};

async fn told_of_a_jump(seconds: i64) {
    let clock = ServerClock::new();
    let server = Server::start_in(&[], &clock.variables());
    clock.is_watched(Postgres::at(&server.address()).unwrap(), seconds).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_when_the_clock_is_set_forward() {
    told_of_a_jump(120).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_when_the_clock_is_set_back() {
    told_of_a_jump(-120).await;
}
