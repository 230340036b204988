//! One server as a subject of the suite, with locks held in one of the ways.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_postgres::{Hold, Postgres};
use lockhouse_testkit::{OwnServer, Proxy, Saboteur, Server, Shared, Subject, Wire, async_trait};

use super::{given, tell, through};

/// Long enough for the leases that cases use to be nearly as long as they want them.
const SILENCE: Duration = Duration::from_secs(8);
/// One case holds many locks at a time.
const ROWS: usize = 80;

/// A connector for locks that are held this way.
pub(crate) fn postgres(address: &str, hold: Hold) -> Postgres {
    Postgres::at(address).unwrap().hold(hold).silence(SILENCE).unwrap().rows(ROWS)
}

/// One server at some address.
#[derive(Debug)]
pub(crate) struct OneServer(pub(crate) String, pub(crate) Hold);

#[async_trait]
impl Subject for OneServer {
    fn guarantees(&self) -> Guarantees {
        postgres(&self.0, self.1).guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(postgres(&self.0, self.1))
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
        let (proxy, address): (Proxy, String) = through(&self.0);
        let locks = Locks::new(postgres(&address, self.1)).await.unwrap();
        (locks, Arc::new(proxy))
    }

    fn has_server(&self) -> bool {
        given().is_none()
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let server = Arc::new(super::Server::start(&[]));
        let subject = Arc::new(OneServer(server.address(), self.1));
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
        // It stands in its lock's row first, and may move from there.
        tell(&self.0, &format!("UPDATE lockhouse_locks SET id = NULL WHERE name = '{name}'")).await;
        tell(&self.0, &format!("DELETE FROM lockhouse_claims WHERE name = '{name}'")).await;
    }
}

/// A server that may be stopped.
#[derive(Debug)]
struct Own(Arc<super::Server>);

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

pub(crate) async fn connect_with(url: String, hold: Hold) -> Locks {
    Locks::new(Shared(Arc::new(postgres(&url, hold)))).await.unwrap()
}
