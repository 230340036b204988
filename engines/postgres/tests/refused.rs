//! What stands before a server, or in its place, and cannot keep locks: told when connecting, with the reason.

mod servers;

use std::time::Duration;

use lockhouse_core::{Clock, Connector, Kind, Locks, Side};
use lockhouse_postgres::{Hold, Postgres};
use lockhouse_testkit::{PgBouncer, claim};
use servers::{Server, client, tell, token};
use tokio::task::JoinSet;

const HOLDS: [Hold; 3] = [Hold::Lease, Hold::Session, Hold::Row];
/// Shorter than what cannot be reached is tried for again.
const AT_ONCE: Duration = Duration::from_secs(4);

#[tokio::test]
async fn a_replica_is_refused_with_the_reason() {
    let primary = Server::start(&[]);
    let client = client(&primary.address(), "lockhouse").await;
    token(client.front.claim(&claim("a")).await.unwrap());
    let replica = primary.start_replica();
    for hold in HOLDS {
        let postgres = Postgres::at(&replica.address()).unwrap().hold(hold);
        for side in [Side::Keeper, Side::Front] {
            let error = postgres.connect(side).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported, "{error}");
            assert!(error.to_string().contains("is a replica"), "{error}");
        }
        let started = Clock::Boot.now();
        Locks::new(postgres).await.unwrap_err();
        assert!(Clock::Boot.now().since(started) < AT_ONCE, "tried again and again");
    }
    // A primary that is made one later says so as well: its clients may be led to the new primary.
    tell(&primary.address(), "ALTER SYSTEM SET default_transaction_read_only = on").await;
    tell(&primary.address(), "SELECT pg_reload_conf()").await;
    let error = loop {
        match client.front.claim(&claim("b")).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(error.to_string().contains("is a replica, or was made one"), "{error}");
}

async fn is_refused(pooler: &PgBouncer, hold: Hold) {
    let error = Locks::new(Postgres::at(&pooler.address()).unwrap().hold(hold)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("is a pooler"), "{error}");
}

/// Somebody who uses a pooler all the time.
fn busy(pooler: &PgBouncer) -> JoinSet<()> {
    let (address, mut busy) = (pooler.address(), JoinSet::new());
    busy.spawn(async move {
        let (client, connection) =
            tokio_postgres::connect(&format!("postgres:{address}"), tokio_postgres::NoTls).await.unwrap();
        let asking = async {
            loop {
                client.simple_query("SELECT pg_sleep(random() / 1000)").await.unwrap();
            }
        };
        futures_util::future::join(asking, connection).await.1.unwrap();
    });
    busy
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_transaction_mode_is_refused_whomever_else_it_serves() {
    let server = Server::start(&[]);
    for order in ["server_round_robin=0", "server_round_robin=1"] {
        for others in [0, 1, 3] {
            let pooler = PgBouncer::start(&server, &["pool_mode=transaction", order]);
            let _others: Vec<_> = (0..others).map(|_| busy(&pooler)).collect();
            for hold in HOLDS {
                is_refused(&pooler, hold).await;
            }
        }
    }
}

#[tokio::test]
async fn a_pooler_in_session_mode_is_not_refused() {
    let server = Server::start(&[]);
    let pooler = PgBouncer::start(&server, &["pool_mode=session"]);
    // The later ones get connections that others have used before.
    for _ in 0..3 {
        for hold in HOLDS {
            let locks = Locks::new(Postgres::at(&pooler.address()).unwrap().hold(hold)).await.unwrap();
            locks.mutex("x").lock().await.unwrap().release().await.unwrap();
        }
    }
}
