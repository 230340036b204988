//! The engine under the suite, in each of the ways to hold a lock.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_mysql::{Hold, Mysql};
use lockhouse_testkit::{OwnServer, Proxy, Saboteur, Shared, Subject, Wire, async_trait};
use rustix::process::Signal;

use super::{given, tell};

/// How long the server honours a connection of the suite's that it does not hear of: no lease is longer, and some cases
/// need one of four times the usual.
const SILENCE: Duration = Duration::from_secs(8);
/// The suite holds many rows at a time.
const ROWS: usize = 100;

/// One server at some address.
#[derive(Debug)]
pub(crate) struct OneServer {
    pub(crate) address: String,
    pub(crate) hold: Hold,
}

impl OneServer {
    fn mysql(&self, address: &str) -> Mysql {
        let mysql = Mysql::at(address).unwrap().hold(self.hold).silence(SILENCE).unwrap();
        if self.hold == Hold::Row { mysql.rows(ROWS) } else { mysql }
    }
}

#[async_trait]
impl Subject for OneServer {
    fn guarantees(&self) -> Guarantees {
        self.mysql(&self.address).guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.mysql(&self.address))
    }

    fn pace(&self) -> u32 {
        10
    }

    fn url(&self) -> Option<String> {
        Some(format!("{:?} {}", self.hold, self.address))
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }

    async fn cuttable(&self) -> (Locks, Arc<dyn Wire>) {
        let (account, place) = self.address.rsplit_once('@').expect("an account");
        let (server, database) = place.split_once('/').expect("a database");
        let proxy = Proxy::before(server.parse().expect("an address with a port"));
        let mysql = self.mysql(&format!("{account}@{}/{database}", proxy.address()));
        (Locks::new(mysql).await.unwrap(), Arc::new(proxy))
    }

    fn has_server(&self) -> bool {
        given().is_none()
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let server = Arc::new(super::Server::start(&[]));
        let subject = Arc::new(OneServer { address: server.address(), hold: self.hold });
        Some(OwnServer { subject, server: Arc::new(Own(server)), members: None })
    }

    fn borrowed(&self) -> Option<&'static str> {
        given().map(|_| "a server was given to the tests")
    }
}

#[async_trait]
impl Saboteur for OneServer {
    async fn remove(&self, name: &Name) {
        let name: String = name.as_str().bytes().map(|byte| format!("{byte:02x}")).collect();
        tell(&self.address, &format!("UPDATE lockhouse_locks SET id = NULL WHERE name = x'{name}'")).await;
        tell(&self.address, &format!("DELETE FROM lockhouse_claims WHERE name = x'{name}'")).await;
    }
}

/// A server that may be stopped.
#[derive(Debug)]
struct Own(Arc<super::Server>);

#[async_trait]
impl lockhouse_testkit::Server for Own {
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

/// A client of the suite's in another process.
pub(crate) async fn connect(url: String) -> Locks {
    let (hold, address) = url.split_once(' ').expect("a hold and an address");
    let hold: Hold = hold.to_lowercase().parse().unwrap();
    let subject = OneServer { address: address.to_owned(), hold };
    Locks::new(Shared(subject.connector())).await.unwrap()
}
