//! The verbs of the contract where ZooKeeper has a way of its own.

mod servers;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use lockhouse_core::{Claim, Engine, Happened, Name, Renewal, Standing, Withdrawal, line};
use lockhouse_testkit::{Cut, Proxy, Sides, Wire, eventually};
use lockhouse_zookeeper::ZooKeeper;
use servers::shared;
use zookeeper_client::Client;

const SESSION: Duration = Duration::from_secs(6);
const SOON: Duration = Duration::from_secs(5);

/// Both sides of a client, without the client: nobody renews what is claimed here.
#[derive(Debug)]
struct Both {
    keeper: Arc<dyn Engine>,
    front: Arc<dyn Engine>,
    /// The node that everything is below.
    root: String,
}

impl Both {
    async fn connect() -> Self {
        Self::connect_at(&shared()).await
    }

    async fn connect_at(address: &str) -> Self {
        let root = format!("/verbs-{:08x}", rand::random::<u32>());
        let zookeeper = ZooKeeper::at(&format!("{address}{root}")).unwrap().session(SESSION).unwrap();
        let Sides { keeper, front } = Sides::of(&zookeeper).await;
        Self { keeper, front, root }
    }

    async fn nodes(&self) -> Vec<String> {
        let plain = Client::connect(shared().trim_start_matches('/')).await.unwrap();
        plain.list_children(&format!("{}/a", self.root)).await.unwrap_or_default()
    }

    /// The one node in line, and its czxid.
    async fn only_node(&self) -> (String, u64) {
        let [node] = &self.nodes().await[..] else { panic!("exactly one node") };
        let plain = Client::connect(shared().trim_start_matches('/')).await.unwrap();
        let (_, stat) = plain.get_data(&format!("{}/a/{node}", self.root)).await.unwrap();
        (node.clone(), stat.czxid.try_into().unwrap())
    }
}

fn claim(weight: u32, capacity: u32) -> Claim {
    Claim { weight, capacity, ttl: Duration::from_secs(5), ..lockhouse_testkit::claim("a") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_reply_was_not_heard_is_found_again() {
    let both = Both::connect().await;
    // Its line's node is there, so that the first request is the one that makes it.
    let first = claim(1, 1);
    both.front.claim(&first).await.unwrap();
    both.front.withdraw(&first).await.unwrap();
    let claim = claim(1, 1);
    // Sent by the first look at the future, and nobody waits for the answer.
    assert!(both.front.claim(&claim).now_or_never().is_none());
    let standing = both.front.claim(&claim).await.unwrap();
    assert!(matches!(standing, Standing::Granted { .. }), "{standing:?}");
    assert_eq!(both.nodes().await.len(), 1);
    assert_eq!(both.keeper.renew(std::slice::from_ref(&claim)).await.unwrap(), [Renewal::Renewed]);
    assert_eq!(both.keeper.withdraw(&claim).await.unwrap(), Withdrawal::Withdrawn);
    assert!(both.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_reply_was_lost_on_the_wire_is_found_again() {
    let server = shared().trim_start_matches('/').split(',').next().unwrap().parse().unwrap();
    let proxy = Proxy::before(server);
    let both = Both::connect_at(&format!("//{}", proxy.address())).await;
    let first = claim(1, 1);
    both.front.claim(&first).await.unwrap();
    both.front.withdraw(&first).await.unwrap();
    let claim = claim(1, 1);
    let asked = both.front.claim(&claim);
    tokio::pin!(asked);
    // The request arrives, its reply does not, and then there is no connection any more.
    proxy.cut(Cut::Deaf);
    let made = eventually(SOON, "the node is there", async || both.nodes().await.len() == 1);
    tokio::select! {
        _ = made => {}
        answer = &mut asked => panic!("there cannot be an answer: {answer:?}"),
    }
    let (name, czxid) = both.only_node().await;
    proxy.cut(Cut::Closed);
    let error = asked.await.unwrap_err();
    assert_eq!(error.may_have_happened(), Happened::Unknown, "{error}");
    proxy.mend();
    let standing = both.front.claim(&claim).await.unwrap();
    assert_eq!(standing, Standing::Granted { token: czxid }, "by the node that was made first");
    assert_eq!(both.only_node().await, (name, czxid), "and by no other");
    assert_eq!(both.keeper.renew(std::slice::from_ref(&claim)).await.unwrap(), [Renewal::Renewed]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_nobody_asked_about_again_is_taken_out_of_the_session() {
    let both = Both::connect().await;
    let short = Claim { ttl: Duration::from_millis(700), ..claim(1, 1) };
    both.front.claim(&short).await.unwrap();
    let unheard = Claim { ttl: Duration::from_millis(700), ..claim(1, 1) };
    assert!(both.front.claim(&unheard).now_or_never().is_none());
    let next = claim(1, 1);
    assert!(matches!(both.front.claim(&next).await.unwrap(), Standing::Queued { ahead: 2 }));
    let moved = tokio::time::timeout(Duration::from_secs(3), both.front.moved(&next)).await.expect("their leases end");
    assert!(matches!(moved.unwrap(), Some(Standing::Granted { .. })));
    assert_eq!(both.nodes().await.len(), 1);
    assert_eq!(both.keeper.renew(&[short, next]).await.unwrap(), [Renewal::Gone, Renewal::Renewed]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_lets_readers_in_and_they_are_told() {
    let both = Both::connect().await;
    let (writer, reader) = (claim(line::kind::WHOLE, line::kind::WHOLE), claim(1, line::kind::WHOLE));
    let granted = both.front.claim(&writer).await.unwrap();
    assert!(matches!(both.front.claim(&reader).await.unwrap(), Standing::Queued { ahead: 1 }));
    let lighter = Claim { weight: 1, ..writer.clone() };
    let (moved, downgraded) = tokio::join!(both.front.moved(&reader), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        both.front.claim(&lighter).await
    });
    assert_eq!(downgraded.unwrap(), granted, "the place and the token stay");
    assert!(matches!(moved.unwrap(), Some(Standing::Granted { .. })));
    // A newcomer knows of it as well, and another writer waits for both.
    assert!(matches!(both.front.claim(&claim(1, line::kind::WHOLE)).await.unwrap(), Standing::Granted { .. }));
    let waiting = claim(line::kind::WHOLE, line::kind::WHOLE);
    assert!(matches!(both.front.claim(&waiting).await.unwrap(), Standing::Queued { ahead: 3 }));
    assert!(both.front.claim(&writer).await.is_err(), "there is no way back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evicted_holder_keeps_its_place_until_its_lease_is_over() {
    let both = Both::connect().await;
    let (holder, next) = (Claim { ttl: Duration::from_millis(1500), ..claim(1, 1) }, claim(1, 1));
    both.front.claim(&holder).await.unwrap();
    both.front.claim(&next).await.unwrap();
    assert!(both.front.evict(&holder.name, &holder.id.public()).await.unwrap());
    assert_eq!(both.keeper.renew(std::slice::from_ref(&holder)).await.unwrap(), [Renewal::Gone]);
    assert!(matches!(both.front.claim(&next).await.unwrap(), Standing::Queued { .. }), "its place stays taken");
    assert!(both.front.survey("").await.unwrap()[0].places[0].evicted);
    let moved = tokio::time::timeout(Duration::from_secs(4), both.front.moved(&next)).await.expect("its lease ends");
    assert!(matches!(moved.unwrap(), Some(Standing::Granted { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_renewals_go_out_together_and_are_told_apart() {
    let both = Both::connect().await;
    let claims: Vec<Claim> =
        (0..600).map(|at| Claim { name: Name::new(format!("n/{at}")).unwrap(), ..claim(1, 1) }).collect();
    futures_util::future::try_join_all(claims.iter().map(|claim| both.front.claim(claim))).await.unwrap();
    for gone in claims.iter().step_by(100) {
        both.front.withdraw(gone).await.unwrap();
    }
    let renewals = both.keeper.renew(&claims).await.unwrap();
    for (at, renewal) in renewals.into_iter().enumerate() {
        assert_eq!(renewal, if at % 100 == 0 { Renewal::Gone } else { Renewal::Renewed }, "{at}");
    }
}
