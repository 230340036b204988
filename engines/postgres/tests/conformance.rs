//! The suite, on one server.

mod servers;

use std::sync::Arc;

use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_postgres::Postgres;
use lockhouse_testkit::{OwnServer, Proxy, Saboteur, Server, Shared, Subject, Wire, async_trait};
use servers::{given, shared, tell};

/// One server at some address.
#[derive(Debug)]
struct OneServer(String);

#[async_trait]
impl Subject for OneServer {
    fn guarantees(&self) -> Guarantees {
        Postgres::guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(Postgres::at(&self.0).unwrap())
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
        let (user, place) = self.0.rsplit_once('@').unwrap_or(("//", &self.0));
        let (server, database) = place.split_once('/').expect("an address with a database");
        let proxy = Proxy::before(server.parse().expect("an address with a port"));
        let through = format!("{user}@{}/{database}", proxy.address());
        let locks = Locks::new(Postgres::at(&through).unwrap()).await.unwrap();
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
        let name = name.as_str().replace('\'', "''");
        tell(&self.0, &format!("DELETE FROM lockhouse_claims WHERE name = '{name}'")).await;
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
        self.0.pause();
    }

    async fn resume(&self) {
        self.0.resume();
    }
}

async fn connect(url: String) -> Locks {
    Locks::new(Shared(Arc::new(Postgres::at(&url).unwrap()))).await.unwrap()
}

lockhouse_testkit::conformance!(OneServer(shared()), taker: connect);
