//! The suite, on one server.

mod servers;

use std::sync::Arc;

use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_redis::Redis;
use lockhouse_testkit::{OwnServer, Proxy, Saboteur, Server, Shared, Subject, Wire, async_trait};
use rustix::process::Signal;
use servers::{given, shared, tell_words};

/// One server at some address.
#[derive(Debug)]
struct OneServer(String);

#[async_trait]
impl Subject for OneServer {
    fn guarantees(&self) -> Guarantees {
        Redis::guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(Redis::at(&self.0).unwrap())
    }

    fn pace(&self) -> u32 {
        10
    }

    fn url(&self) -> Option<String> {
        Some(self.0.clone())
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }

    async fn cuttable(&self) -> (Locks, Arc<dyn Wire>) {
        let server = self.0.trim_start_matches('/');
        let proxy = Proxy::before(server.split('/').next().unwrap_or(server).parse().expect("an address with a port"));
        let locks = Locks::new(Redis::at(&format!("//{}", proxy.address())).unwrap()).await.unwrap();
        (locks, Arc::new(proxy))
    }

    fn has_server(&self) -> bool {
        given().is_none()
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let server = Arc::new(servers::Server::start(&[]));
        let subject = Arc::new(OneServer(server.address()));
        Some(OwnServer { subject, server: Arc::new(Own(server)), members: None })
    }

    fn borrowed(&self) -> Option<&'static str> {
        given().map(|_| "a server was given to the tests")
    }
}

#[async_trait]
impl Saboteur for OneServer {
    async fn remove(&self, name: &Name) {
        let holder = format!("lockhouse:{name}");
        let others = ["claims", "waiters", "leases"].map(|key| format!("{{{holder}}}\t{key}"));
        tell_words(&self.0, &["DEL", &holder, &others[0], &others[1], &others[2]]);
    }
}

/// A server that may be stopped.
#[derive(Debug)]
struct Own(Arc<servers::Server>);

#[async_trait]
impl Server for Own {
    async fn stop(&self) {
        self.0.kill();
    }

    async fn start(&self) {
        self.0.restart();
    }

    async fn pause(&self) {
        self.0.signal(Signal::STOP);
    }

    async fn resume(&self) {
        self.0.signal(Signal::CONT);
    }
}

async fn connect(url: String) -> Locks {
    Locks::new(Shared(Arc::new(Redis::at(&url).unwrap()))).await.unwrap()
}

lockhouse_testkit::conformance!(OneServer(shared()), taker: connect);
