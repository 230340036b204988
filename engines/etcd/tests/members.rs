//! What the suite does not ask of an ensemble: a follower that is killed, and a majority that comes back.

mod servers;

use std::time::Duration;

use lockhouse_core::{Locks, Loss};
use lockhouse_etcd::Etcd;
use rustix::process::Signal;
use servers::Cluster;

const TTL: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_that_are_killed_or_stand_still_cost_nothing() {
    let cluster = Cluster::start(3);
    let locks = Locks::new(Etcd::at(&cluster.address()).unwrap()).await.unwrap();
    let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    for kill in [true, false] {
        let follower = &cluster.members[(cluster.leader() + 1) % 3];
        if kill {
            follower.program.kill();
        } else {
            follower.program.signal(Signal::STOP);
        }
        // Whichever member the client was connected to.
        for _ in 0..5 {
            locks.mutex("b").ttl(TTL).lock().await.unwrap().release().await.unwrap();
            tokio::time::sleep(TTL / 4).await;
            guard.check().expect("no false loss");
        }
        cluster.restore();
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_comes_back_serves_who_waited() {
    let cluster = Cluster::start(3);
    let address = cluster.address();
    let (a, b) = (
        Locks::new(Etcd::at(&address).unwrap()).await.unwrap(),
        Locks::new(Etcd::at(&address).unwrap()).await.unwrap(),
    );
    let guard = a.mutex("a").ttl(TTL).lock().await.unwrap();
    let (leader, token) = (cluster.leader(), guard.token());
    for member in [leader, (leader + 1) % 3] {
        cluster.members[member].program.kill();
    }
    let loss = tokio::time::timeout(TTL, guard.lost()).await.expect("told before its lease is over");
    assert_eq!(loss, Loss::Expired);
    assert!(b.mutex("a").ttl(TTL).try_lock().await.is_err(), "nobody can promise anything");
    cluster.restore();
    // The members count the leases anew from their election, as they must.
    let next = tokio::time::timeout(TTL * 4, b.mutex("a").ttl(TTL).lock()).await.expect("in time").unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}
