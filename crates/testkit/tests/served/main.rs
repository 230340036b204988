//! The suite against an engine with everything that servers have: connections that can be cut, a server that can be
//! stopped, and clients in other processes. It shows that the cases for these things work before any store is
//! installed.

mod client;
mod message;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use client::Dialling;
use lockhouse_core::{Connector, Guarantees, Locks, Name};
use lockhouse_testkit::{OwnServer, Proxy, Saboteur, Server, Subject, Wire, async_trait};
use server::MemoryServer;

#[derive(Debug)]
struct Served(Arc<MemoryServer>);

impl Served {
    fn start() -> Self {
        Self(Arc::new(MemoryServer::start()))
    }
}

#[async_trait]
impl Subject for Served {
    fn guarantees(&self) -> Guarantees {
        client::guarantees()
    }

    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(Dialling(self.0.address()))
    }

    fn pace(&self) -> u32 {
        10
    }

    fn url(&self) -> Option<String> {
        Some(self.0.address().to_string())
    }

    fn saboteur(&self) -> Option<&dyn Saboteur> {
        Some(self)
    }

    async fn cuttable(&self) -> (Locks, Arc<dyn Wire>) {
        let proxy = Proxy::before(self.0.address());
        let locks = Locks::new(Dialling(proxy.address())).await.expect("the proxy passes it on");
        (locks, Arc::new(proxy))
    }

    fn has_server(&self) -> bool {
        true
    }

    async fn own_server(&self) -> Option<OwnServer> {
        let server = Arc::new(MemoryServer::start());
        Some(OwnServer { subject: Arc::new(Self(Arc::clone(&server))), server, members: None })
    }
}

#[async_trait]
impl Saboteur for Served {
    async fn remove(&self, name: &Name) {
        self.0.memory().sabotage(name);
    }
}

#[async_trait]
impl Server for MemoryServer {
    async fn stop(&self) {
        self.set(server::State::Stopped).await;
    }

    async fn start(&self) {
        self.set(server::State::Serving).await;
    }

    async fn pause(&self) {
        self.set(server::State::Paused).await;
    }

    async fn resume(&self) {
        self.set(server::State::Serving).await;
    }
}

async fn connect(url: String) -> Locks {
    let address: SocketAddr = url.parse().expect("the suite gives what the subject gave it");
    Locks::new(Dialling(address)).await.expect("the server is there")
}

lockhouse_testkit::conformance!(Served::start(), taker: connect);
