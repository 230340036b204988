//! What the suite does not ask of an ensemble: a follower that is killed, a majority that comes back, and what the
//! doctor says of it.

mod servers;

use std::time::Duration;

use lockhouse_core::{Locks, Loss};
use lockhouse_etcd::Etcd;
use rustix::process::Signal;
use servers::{Cluster, client};

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
    let [all, first, last] = [&cluster.members[..], &cluster.members[..1], &cluster.members[2..]]
        .map(|members| members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect::<Vec<_>>());
    // Whether the address names all members or one of them.
    for (hosts, killed) in [(&all, None), (&first, None), (&all, Some(2)), (&first, Some(2)), (&last, Some(0))] {
        cluster.restore();
        if let Some(killed) = killed {
            cluster.members[killed].program.kill();
        }
        let leader = cluster.leader();
        let front = client(&format!("//{}", hosts.join(",")), "").await.front;
        let checkup = front.checkup().await.unwrap();
        let fact = |what: &str| checkup.facts.iter().find(|fact| fact.what == what).map(|fact| fact.value.as_str());
        assert_eq!(fact("members").map(|value| &value[..2]), Some("3:"), "{checkup:?}");
        assert_eq!(fact("leader"), Some(format!("e{leader}").as_str()), "{checkup:?}");
        for (at, host) in all.iter().enumerate() {
            let role = fact(&format!("member e{at} at {host}")).and_then(|said| said.split(", ").nth(1));
            let expected = if at == leader { "leader" } else { "follower" };
            assert_eq!(role, (killed != Some(at)).then_some(expected), "e{at}: {checkup:?}");
            let silent = format!("the member e{at} at {host} does not answer: ");
            let told = checkup.findings.iter().filter(|found| found.what.starts_with(&silent)).count();
            assert_eq!(told, usize::from(killed == Some(at)), "e{at}: {checkup:?}");
        }
    }
}
