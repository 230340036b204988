//! What the suite does not ask of an ensemble: a follower that is killed, a majority that comes back, and what the
//! doctor says of it.

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_the_members_the_leader_and_who_does_not_answer() {
    let cluster = Cluster::start(3);
    let host = |at: usize| format!("127.0.0.1:{}", cluster.members[at].port);
    // Whether the address names all members or one of them. Who stood still may call an election when it goes on, and
    // so comes last.
    let (kill, pause) = (Some(Signal::KILL), Some(Signal::STOP));
    for (named, fault) in [(3, None), (1, None), (3, kill), (1, kill), (3, pause)] {
        cluster.restore();
        let leader = cluster.leader();
        let silent = fault.map(|signal| {
            let follower = (leader + 1) % 3;
            let program = &cluster.members[follower].program;
            if signal == Signal::KILL {
                program.kill()
            } else {
                program.signal(signal)
            };
            follower
        });
        let address = if named == 1 { format!("//{}", host(leader)) } else { cluster.address() };
        let locks = Locks::new(Etcd::at(&address).unwrap()).await.unwrap();
        let checkup = locks.checkup().await.unwrap();
        let fact = |what: &str| checkup.facts.iter().find(|fact| fact.what == what).map(|fact| fact.value.as_str());
        assert_eq!(fact("members").map(|value| &value[..2]), Some("3:"), "{checkup:?}");
        assert_eq!(fact("leader"), Some(format!("e{leader}").as_str()), "{checkup:?}");
        for at in 0..3 {
            let who = format!("member e{at} at {}", host(at));
            let role = fact(&who).and_then(|said| said.split(", ").nth(1));
            let expected = if at == leader { "leader" } else { "follower" };
            assert_eq!(role, (silent != Some(at)).then_some(expected), "e{at}: {checkup:?}");
            let told = format!("the {who} does not answer: ");
            let told = checkup.findings.iter().filter(|found| found.what.starts_with(&told)).count();
            assert_eq!(told, usize::from(silent == Some(at)), "e{at}: {checkup:?}");
        }
    }
}
